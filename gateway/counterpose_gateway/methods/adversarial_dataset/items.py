"""The planned items of an adversarial dataset: their prompts, seeds and groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from counterpose_core.blobs import cache_key
from counterpose_core.contract.adversarial_datasets import (
    AdversarialDatasetConfig,
    AdversarialInstruction,
    AdversarialPhase,
)
from counterpose_core.contract.datasets import Source
from counterpose_core.types import ItemKind
from counterpose_gateway.records.items import LeasedItem, PlannedItem
from counterpose_gateway.runs.seeds import derive_seed, image_seed
from counterpose_gateway.steps.generation import images_per_call

_REAL_PER_CALL = 16


def sample_seed(config: AdversarialDatasetConfig, item: LeasedItem, told: AdversarialInstruction) -> int:
    """Return the seed of an image, of the run's seed, its prompt and its place alone.

    It does not depend on the number of the caption: another choice of seeds makes the same images of it.
    """
    if told.phase == "baseline":
        return image_seed(config.request.seed, item.label, item.slot)
    return derive_seed(config.request.seed, "sample", item.label, told.prompt or "", item.slot)


def plan_images(
    config: AdversarialDatasetConfig, label: str, told: AdversarialInstruction, places: range
) -> Iterator[PlannedItem]:
    """Plan the images of one prompt at these places; `numbered` gives them their ordinals."""
    size, number = images_per_call(config.generation), told.caption or 0
    instruction = told.model_dump(mode="json", exclude_defaults=True)
    for place in places:
        yield PlannedItem(
            item_key=cache_key(phase=told.phase, label=label, caption=number, place=place),
            ordinal=0,
            kind="sample",
            item_group=cache_key(phase=told.phase, label=label, caption=number, chunk=place // size),
            source_image=config.examples[label],
            label=label,
            slot=place,
            instruction=instruction,
        )


def plan_seeds(sources: Iterable[Source]) -> Iterator[PlannedItem]:
    """Plan the answers to real images and the captions of those that fool."""
    return _plan_real(sources, "seed", "caption")


def plan_reference(sources: Iterable[Source]) -> Iterator[PlannedItem]:
    """Plan the features of real images."""
    return _plan_real(sources, "reference", "image")


def _plan_real(sources: Iterable[Source], phase: AdversarialPhase, kind: ItemKind) -> Iterator[PlannedItem]:
    by_label: dict[str, list[Source]] = {}
    for source in sources:
        by_label.setdefault(source.label, []).append(source)
    told = AdversarialInstruction(phase=phase).model_dump(mode="json", exclude_defaults=True)
    for label, listed in by_label.items():
        for place, source in enumerate(listed):
            yield PlannedItem(
                item_key=cache_key(phase=phase, source=source.id, place=place),
                ordinal=0,
                kind=kind,
                item_group=cache_key(phase=phase, label=label, chunk=place // _REAL_PER_CALL),
                source_image=source.image,
                label=label,
                slot=place,
                instruction=told,
            )


def spread(sources: Sequence[Source], most: int) -> list[Source]:
    """Return at most so many sources, whatever the order they were uploaded in."""
    # An id is a digest: its order is as good as a random one.
    return sorted(sources, key=lambda source: source.id)[:most]
