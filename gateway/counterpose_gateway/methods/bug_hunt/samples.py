"""The planned images and captions of a hunt: their prompts, seeds and groups."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from counterpose_core.blobs import cache_key
from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntInstruction, HuntPhase
from counterpose_gateway.methods.bug_hunt.hunted_items import HuntedItem
from counterpose_gateway.records.items import LeasedItem, PlannedItem
from counterpose_gateway.runs.seeds import derive_seed, image_seed
from counterpose_gateway.steps.generation import images_per_call

_CAPTIONS_PER_CALL = 16


def sample_seed(config: BugHuntConfig, item: LeasedItem, instruction: HuntInstruction) -> int:
    """Return the seed of a sample, of the run's seed, its phase, label and place alone.

    All descriptions of a label start from the same noise; held-out ones from noise that no choice saw.
    """
    seed = config.request.seed
    if instruction.phase == "baseline":
        return image_seed(seed, item.label, item.slot)
    return derive_seed(seed, instruction.phase, item.label, item.slot)


def plan_samples(
    config: BugHuntConfig, label: str, instruction: HuntInstruction, places: range
) -> Iterator[PlannedItem]:
    """Plan the images of one prompt at these places; `numbered` gives them their ordinals."""
    size = images_per_call(config.generation)
    number = instruction.hypothesis or instruction.component or 0
    told = instruction.model_dump(mode="json", exclude_defaults=True)
    for place in places:
        group = cache_key(phase=instruction.phase, label=label, hypothesis=number, chunk=place // size)
        yield PlannedItem(
            item_key=cache_key(phase=instruction.phase, label=label, hypothesis=number, place=place),
            ordinal=0,
            kind="sample",
            item_group=group,
            source_image=config.examples[label],
            label=label,
            slot=place,
            instruction=told,
        )


def plan_captions(
    label: str,
    samples: Iterable[HuntedItem],
    edit: Collection[str] = (),
    *,
    prompt: str | None = None,
    phase: HuntPhase = "captions",
) -> Iterator[PlannedItem]:
    """Plan the caption of each sample's image, and its edits where the sample's id is among ``edit``.

    ``prompt``: what the caption goes on from; None for a free one. ``phase``: what the captions are for.
    """
    forced = {} if prompt is None else {"prompt": prompt}
    forced |= {} if phase == "captions" else {"phase": phase}
    for slot, item in enumerate(samples):
        if item.result is not None:
            told = HuntInstruction(phase=phase, sample=item.id, edit=item.id in edit, prompt=prompt)
            yield PlannedItem(
                item_key=cache_key(caption=item.id, **forced),
                ordinal=0,
                kind="caption",
                item_group=cache_key(captions=label, chunk=slot // _CAPTIONS_PER_CALL, **forced),
                source_image=item.result.image,
                label=label,
                slot=slot,
                instruction=told.model_dump(mode="json", exclude_defaults=True),
            )


def begun_until(until: dt.datetime | None, items: Iterable[PlannedItem]) -> Iterator[PlannedItem]:
    """Tell samples until when they may be begun; None is no limit."""
    for item in items:
        if until is None or item.kind != "sample" or item.instruction is None:
            yield item
        else:
            yield replace(item, instruction={**item.instruction, "until": until.isoformat()})
