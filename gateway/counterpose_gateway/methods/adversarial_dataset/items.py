"""The planned items of an adversarial dataset: their prompts, seeds and groups.

What was recorded of an adversarial dataset, by what it is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from counterpose_core.adversarial_dataset.prompts import SeedPrompt, SeedPrompts, prompts_of
from counterpose_core.blobs import cache_key
from counterpose_core.contract.adversarial_datasets import (
    AdversarialDatasetConfig,
    AdversarialInstruction,
    AdversarialItem,
    AdversarialPhase,
)
from counterpose_core.contract.datasets import Source
from counterpose_core.types import Cost, ItemKind
from counterpose_gateway.records.items import LeasedItem, PlannedItem
from counterpose_gateway.runs.seeds import derive_seed, image_seed
from counterpose_gateway.steps.adversarial_images import Selection, select_images, thresholds_of
from counterpose_gateway.steps.failed_samples import LabelThreshold
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


@dataclass
class RecordedDataset:
    """The items of a run so far."""

    config: AdversarialDatasetConfig
    phases: dict[AdversarialPhase, list[AdversarialItem]] = field(default_factory=dict)
    seconds: float = 0.0
    cost: Cost = field(default_factory=Cost)

    @classmethod
    def of(cls, config: AdversarialDatasetConfig, items: Iterable[AdversarialItem]) -> RecordedDataset:
        """Sort the items of a run, in planned order."""
        recorded = cls(config)
        for item in items:
            if item.instruction is not None:
                recorded.phases.setdefault(item.instruction.phase, []).append(item)
            if item.result is not None:
                recorded.seconds += sum(item.result.service_seconds.values())
                recorded.cost += item.result.cost
        return recorded

    def of_phase(self, phase: AdversarialPhase) -> list[AdversarialItem]:
        """The items of one phase."""
        return self.phases.get(phase, [])

    @cached_property
    def thresholds(self) -> dict[str, LabelThreshold]:
        """Below which similarity an image does not show its label, by label."""
        return thresholds_of(self.config, self.of_phase("baseline"))

    @cached_property
    def by_caption(self) -> dict[int, list[AdversarialItem]]:
        """The samples of each caption, by its number."""
        found: dict[int, list[AdversarialItem]] = {}
        for item in self.of_phase("sample"):
            number = None if item.instruction is None else item.instruction.caption
            if number is not None:
                found.setdefault(number, []).append(item)
        return found

    @cached_property
    def selection(self) -> Selection:
        """What is kept."""
        return select_images(self.config, self.of_phase("sample"), self.thresholds)

    @cached_property
    def prompts(self) -> SeedPrompts:
        """The prompts: those that were known at the start, or the captions of the seeds."""
        config = self.config
        if config.prompts:
            return SeedPrompts([SeedPrompt(each.label, each.text, each.seeds) for each in config.prompts])
        captions = (
            (item.label, item.result.caption)
            for item in self.of_phase("seed")
            if item.state == "done" and item.result is not None and item.result.caption is not None
        )
        request = config.request
        return prompts_of(captions, config.classes, sentences=request.sentences, most=request.captions)
