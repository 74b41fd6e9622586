"""The dataset interface: classes are learned as tokens in batches, and each token is then validated."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from counterpose_core.contract.base import MAX_BATCH
from counterpose_core.contract.captioner import CaptionItem, CaptionRequest
from counterpose_core.contract.dataset_interfaces import CLASS_NAME, DatasetInterfaceConfig
from counterpose_core.text.class_captions import class_captions
from counterpose_core.types import BlobRef
from counterpose_gateway.methods.dataset_interface.learning import ClassState, learn_further
from counterpose_gateway.methods.dataset_interface.token_selection import select_token
from counterpose_gateway.methods.dataset_interface.validation import validate
from counterpose_gateway.records.items import LeasedGroup, Recorder
from counterpose_gateway.runs.attempt import OpenItems, finish_group
from counterpose_gateway.runs.calls import Calls
from counterpose_gateway.runs.drops import Drops
from counterpose_gateway.runs.stores import Store
from counterpose_gateway.services.ports import Services


async def process(group: LeasedGroup, *, services: Services, record: Recorder, store: Store) -> None:
    """Learn the leased classes together and record each exactly once; a class that fails affects no other.

    Raises:
        LeaseLost: another worker owns the items now.
    """
    config = DatasetInterfaceConfig.model_validate(group.config)
    attempt = OpenItems(group, services, record, store)
    await finish_group(attempt, group, _work_through(attempt, config))


async def _work_through(attempt: OpenItems, config: DatasetInterfaceConfig) -> None:
    states, calls = list[ClassState](), attempt.calls
    for item in attempt.open:
        async with attempt.fail_items_on_error([item]):
            images = json.loads(calls.store.get(config.images[item.label]))
            states.append(ClassState(item, images))
    if config.prompts == "captions":
        attempt.keep(await write_prompts(calls, config, states))
    while left := [state for state in states if state.bundle is None and attempt.is_open(state.item)]:
        attempt.keep(await learn_further(calls, config, left))
    for state in states:
        if attempt.is_open(state.item):
            async with attempt.fail_items_on_error([state.item]):
                # A single candidate leaves nothing to choose.
                if len(state.offers) > 1:
                    await select_token(calls, config, state)
                await attempt.done(state.item, await validate(calls, config, state))


async def write_prompts(
    calls: Calls, config: DatasetInterfaceConfig, states: Sequence[ClassState]
) -> tuple[Sequence[ClassState], Drops]:
    """Give each image of each class a prompt that describes the rest of the image.

    An image whose caption is missing or does not mention the class gets the first template.
    """
    drops = Drops()
    usual = {name: await _captions(calls, images) for name, images in config.compared.items()}
    for state in states:
        with drops.on_error([state.item]):
            await _write(calls, config, state, usual)
    return states, drops


async def _write(
    calls: Calls, config: DatasetInterfaceConfig, state: ClassState, usual: Mapping[str, Sequence[str]]
) -> None:
    name = state.item.label
    # A common initialiser describes no class: "a photo of a <class> bus" would leave the bus unlearned.
    shared = "" if config.request.token_init == CLASS_NAME else config.request.token_init
    captions = {**usual, name: await _captions(calls, state.images)}
    written = class_captions(captions, shared=shared)[name]
    template = config.preset.templates.prompts[0]
    state.own_words = list(written.own)
    state.prompts = [prompt or template for prompt in written.prompts]


async def _captions(calls: Calls, images: Sequence[BlobRef]) -> list[str]:
    """The captioner's caption of each image, without its label; empty where there is no caption."""
    captions: list[str] = []
    for start in range(0, len(images), MAX_BATCH):
        items = [CaptionItem(image=image) for image in images[start : start + MAX_BATCH]]
        caption = calls.services.captioner.caption
        outcomes = await calls.ask("captioner", caption, CaptionRequest(items=items))
        # The editor reports and drops an image that cannot be read; here it has no caption.
        captions += ["" if outcome.value is None else outcome.value.text for outcome in outcomes]
    return captions
