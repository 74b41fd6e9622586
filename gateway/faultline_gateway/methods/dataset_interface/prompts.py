"""Training prompts of images: their captions, with a slot in place of the class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faultline_core.contract.base import MAX_BATCH
from faultline_core.contract.captioner import CaptionItem, CaptionRequest
from faultline_core.contract.dataset_interfaces import CLASS_NAME, DatasetInterfaceConfig
from faultline_core.text.class_captions import class_captions
from faultline_core.types import BlobRef
from faultline_gateway.methods.dataset_interface.learning import ClassState
from faultline_gateway.runs.attempt import OpenItems
from faultline_gateway.services.ports import Services


async def write_prompts(
    attempt: OpenItems, config: DatasetInterfaceConfig, states: Sequence[ClassState], services: Services
) -> None:
    """Give each image of each class a prompt that describes the rest of the image.

    An image whose caption is missing or does not mention the class gets the first template.
    """
    usual = {name: await _captions(attempt, images, services) for name, images in config.compared.items()}
    for state in states:
        async with attempt.fail_items_on_error([state.item]):
            await _write(attempt, config, state, usual, services)


async def _write(
    attempt: OpenItems,
    config: DatasetInterfaceConfig,
    state: ClassState,
    usual: Mapping[str, Sequence[str]],
    services: Services,
) -> None:
    name = state.item.label
    # A common initialiser describes no class: "a photo of a <class> bus" would leave the bus unlearned.
    shared = "" if config.request.token_init == CLASS_NAME else config.request.token_init
    captions = {**usual, name: await _captions(attempt, state.images, services)}
    written = class_captions(captions, shared=shared)[name]
    template = config.preset.templates.prompts[0]
    state.own_words = list(written.own)
    state.prompts = [prompt or template for prompt in written.prompts]


async def _captions(attempt: OpenItems, images: Sequence[BlobRef], services: Services) -> list[str]:
    """The captioner's caption of each image, without its label; empty where there is no caption."""
    captions: list[str] = []
    for start in range(0, len(images), MAX_BATCH):
        items = [CaptionItem(image=image) for image in images[start : start + MAX_BATCH]]
        response = await attempt.call("captioner", services.captioner.caption, CaptionRequest(items=items))
        attempt.add_shared_cost(response.cost)
        outcomes = attempt.outcomes("captioner", response)
        # The editor reports and drops an image that cannot be read; here it has no caption.
        captions += ["" if outcome.value is None else outcome.value.text for outcome in outcomes]
    return captions
