"""What pictures are shown under: their captions, in which the slot stands where the class is spoken of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faultline_core.class_captions import class_captions
from faultline_core.contract.base import MAX_BATCH
from faultline_core.contract.captioner import CaptionItem, CaptionRequest
from faultline_core.contract.dataset_interfaces import CLASS_NAME, DatasetInterfaceConfig
from faultline_core.types import BlobRef
from faultline_gateway.ports import Services
from faultline_gateway.workflows.attempt import OpenItems
from faultline_gateway.workflows.token_chain import Pupil


async def write_prompts(
    attempt: OpenItems, config: DatasetInterfaceConfig, pupils: Sequence[Pupil], services: Services
) -> None:
    """Give each picture of each class a prompt that tells what else is in it than the class.

    A caption that says nothing of the class, or none at all, leaves its picture to the first template.
    """
    usual = {name: await _captions(attempt, images, services) for name, images in config.compared.items()}
    for pupil in pupils:
        async with attempt.blaming([pupil.item]):
            await _write(attempt, config, pupil, usual, services)


async def _write(
    attempt: OpenItems,
    config: DatasetInterfaceConfig,
    pupil: Pupil,
    usual: Mapping[str, Sequence[str]],
    services: Services,
) -> None:
    name = pupil.item.label
    # What all classes begin as says nothing of one: "a photo of a <class> bus" would leave the bus unlearned.
    shared = "" if config.request.token_init == CLASS_NAME else config.request.token_init
    captions = {**usual, name: await _captions(attempt, pupil.images, services)}
    found = class_captions(captions, shared=shared)[name]
    template = config.preset.templates.prompts[0]
    pupil.own_words = list(found.own)
    pupil.prompts = [prompt or template for prompt in found.prompts]


async def _captions(attempt: OpenItems, images: Sequence[BlobRef], services: Services) -> list[str]:
    """The captioner's words on each picture, without its label: empty where it has none."""
    found: list[str] = []
    for start in range(0, len(images), MAX_BATCH):
        items = [CaptionItem(image=image) for image in images[start : start + MAX_BATCH]]
        response = await attempt.call("captioner", services.captioner.caption, CaptionRequest(items=items))
        attempt.share(response.cost)
        outcomes = attempt.outcomes("captioner", response, len(items))
        # A picture that cannot be read is named by the editor, which drops it; here it has no words.
        found += ["" if outcome.value is None else outcome.value.text for outcome in outcomes]
    return found
