"""What was recorded of a hunt, by what it is for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from counterpose_core.contract.bug_hunt_summary import LabelObject
from counterpose_core.contract.bug_hunts import PHOTOGRAPHS_PHASE, HuntInstruction, HuntPhase
from counterpose_core.types import Cost
from counterpose_gateway.methods.bug_hunt.hunted_items import HuntedItem, HuntedResult
from counterpose_gateway.steps.failed_samples import Counted, count_failures, label_threshold

SampleKey = tuple[HuntPhase, str, int | None]
"""The phase, the label, and the number of the description, or of the mixture's prompt."""


@dataclass
class RecordedHunt:
    """The items of a hunt so far, by what they are for."""

    samples: dict[SampleKey, list[HuntedItem]] = field(default_factory=dict)
    captions: list[HuntedItem] = field(default_factory=list)
    mentions: list[HuntedItem] = field(default_factory=list)
    """Captions of held-out images of labels alone."""
    clusterings: list[HuntedItem] = field(default_factory=list)
    combinations: list[HuntedItem] = field(default_factory=list)
    described: dict[int, tuple[str, HuntInstruction]] = field(default_factory=dict)
    """By number of a description, its label and what its first image was asked for."""
    shortened: dict[int, tuple[str, HuntInstruction]] = field(default_factory=dict)
    """The same of the shorter forms of winners."""
    last: HuntPhase = "baseline"
    rounds: int = 0
    """Stages of images of descriptions."""
    made: int = 0
    seconds: float = 0.0
    began: dt.datetime | None = None
    """When work on the first item began, and when the last one ended."""
    ended: dt.datetime | None = None
    cost: Cost = field(default_factory=Cost)
    failed_codes: list[str | None] = field(default_factory=list)
    """Why items failed, of each that did."""
    reasons: list[str | None] = field(default_factory=list)
    """Why items were filtered, of each that was."""
    _thresholds: dict[str, LabelObject] = field(default_factory=dict, repr=False)
    _counted: dict[tuple[SampleKey, str], Counted[HuntedItem]] = field(default_factory=dict, repr=False)
    _descriptions: dict[str, dict[int, HuntInstruction]] = field(default_factory=dict, repr=False)
    _explored: dict[tuple[str, str], Counted[HuntedItem]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, items: Iterable[HuntedItem]) -> RecordedHunt:
        """Sort the items of a run, in planned order."""
        hunt, stages, spent = cls(), set[int](), dict[str, float]()
        of_failures: dict[HuntPhase, list[HuntedItem]] = {
            "clusters": hunt.clusterings,
            "captions": hunt.captions,
            "combination": hunt.combinations,
            "mentions": hunt.mentions,
        }
        for item in items:
            if item.state == "failed":
                hunt.failed_codes.append(item.code)
            if item.state == "filtered":
                hunt.reasons.append(item.reason)
            told = item.instruction
            if told is None:
                continue
            hunt.last = told.phase
            if (result := item.result) is not None:
                hunt.made += item.kind == "sample" and told.phase != PHOTOGRAPHS_PHASE
                hunt.seconds += sum(result.service_seconds.values())
                _add_cost(spent, result.cost)
                hunt._note_times(result)
            if told.phase in of_failures:
                of_failures[told.phase].append(item)
                continue
            number = told.hypothesis if told.component is None else told.component
            hunt.samples.setdefault((told.phase, item.label, number), []).append(item)
            if told.phase == "hypothesis":
                stages.add(item.stage)
            if told.hypothesis is not None:
                hunt._describe(told.hypothesis, item.label, told)
        hunt.rounds = len(stages)
        hunt.cost = Cost.model_validate(spent)
        return hunt

    def has(self, phase: HuntPhase) -> bool:
        """Whether there are images of a phase."""
        return any(each == phase for each, _, _ in self.samples)

    def explored(self, label: str) -> list[HuntedItem]:
        """The images that propose descriptions: of the label alone, and of edited captions."""
        return [*self.of_label("baseline", label), *self.of_label("varied", label)]

    def counted_explored(self, label: str, classifier: str) -> Counted[HuntedItem]:
        """Count a classifier's failures among them, only once for a stage or a summary."""
        if not self.of_label("varied", label):
            return self.counted("baseline", label, classifier)
        key = label, classifier
        if key not in self._explored:
            threshold = self.threshold(label).threshold
            self._explored[key] = count_failures(self.explored(label), classifier, threshold)
        return self._explored[key]

    @cached_property
    def free_captions(self) -> Mapping[str, str]:
        """The free captions, by the id of the item whose image they tell."""
        return {
            item.instruction.sample: item.result.caption
            for item in self.captions
            if item.state == "done" and item.result is not None and item.result.caption
            and item.instruction is not None and item.instruction.sample is not None
            and item.instruction.prompt is None
        }  # fmt: skip

    @cached_property
    def edited(self) -> Mapping[str, list[Sequence[str]]]:
        """What the language model made of each caption that it edited, by label."""
        found: dict[str, list[Sequence[str]]] = {}
        for item in self.captions:
            if item.result is not None and item.result.edited:
                found.setdefault(item.label, []).append(item.result.edited)
        return found

    @cached_property
    def forced_captions(self) -> Mapping[str, tuple[str, str]]:
        """Image and caption of each captioned sample whose caption goes on from the baseline's prompt."""
        return {
            item.instruction.sample: (item.source_image, item.result.caption)
            for item in self.captions
            if item.result is not None and item.result.caption
            and item.instruction is not None and item.instruction.sample is not None
            and item.instruction.prompt
        }  # fmt: skip

    def _describe(self, number: int, label: str, told: HuntInstruction) -> None:
        if told.phase == "hypothesis" or told.source == "user":
            self.described.setdefault(number, (label, told))
        elif told.phase == "refinement" and told.refines is not None:
            self.shortened.setdefault(number, (label, told))

    def _note_times(self, result: HuntedResult) -> None:
        if result.began_at is not None:
            self.began = min(self.began or result.began_at, result.began_at)
        if result.ended_at is not None:
            self.ended = max(self.ended or result.ended_at, result.ended_at)

    def of_label(self, phase: HuntPhase, label: str, number: int | None = None) -> list[HuntedItem]:
        """The images of a label's baseline, or of the description of this number."""
        return self.samples.get((phase, label, number), [])

    def descriptions(self, label: str) -> Mapping[int, HuntInstruction]:
        """What the first image of each description of a label was asked for, by number."""
        if not self._descriptions:
            for number, (of, told) in self.described.items():
                self._descriptions.setdefault(of, {})[number] = told
        return self._descriptions.get(label, {})

    def told(self, number: int) -> HuntInstruction:
        """What the images of a description, or of a shorter form of one, are asked for."""
        return (self.described.get(number) or self.shortened[number])[1]

    def threshold(self, label: str) -> LabelObject:
        """Return the similarity below which an image does not show its label.

        There are no photographs to set it by, as in a shift benchmark: the images that some classifier
        answers rightly stand for them, those of edited captions too: a label at night looks less like itself.
        """
        if label not in self._thresholds:
            # Where the user's descriptions are measured, the label alone has held-out images only.
            items = self.explored(label) or self.of_label("held-out", label)
            self._thresholds[label] = LabelObject.model_validate(vars(label_threshold(items)))
        return self._thresholds[label]

    def counted(
        self, phase: HuntPhase, label: str, classifier: str, number: int | None = None
    ) -> Counted[HuntedItem]:
        """Count a classifier's failures among images, each only once for a stage or a summary."""
        key = (phase, label, number), classifier
        if key not in self._counted:
            items, shown_from = self.of_label(phase, label, number), self.threshold(label).threshold
            self._counted[key] = count_failures(items, classifier, shown_from)
        return self._counted[key]


def _add_cost(spent: dict[str, float], cost: Cost) -> None:
    # Not by adding models of costs, most of whose fields are zero: it took a third of a summary's time.
    for name, value in vars(cost).items():
        if value:
            spent[name] = spent.get(name, 0) + value
