"""What was recorded of an adversarial dataset, by what it is for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from counterpose_core.adversarial_dataset.prompts import SeedPrompt, SeedPrompts, prompts_of
from counterpose_core.contract.adversarial_datasets import (
    AdversarialDatasetConfig,
    AdversarialItem,
    AdversarialPhase,
)
from counterpose_core.types import Cost
from counterpose_gateway.steps.adversarial_images import Selection, select_images, thresholds_of
from counterpose_gateway.steps.failed_samples import LabelThreshold


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
