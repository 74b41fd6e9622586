"""What was recorded of a hunt, and which of its images count as failures of a classifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from faultline_core.bug_hunt.comparison import FailureCounts
from faultline_core.contract.bug_hunt_summary import LabelObject
from faultline_core.contract.bug_hunts import HuntInstruction, HuntItem, HuntPhase
from faultline_core.shift_benchmark.object_thresholds import object_thresholds
from faultline_core.types import Cost

LEAST_SHOWN = 20
"""Right answers by which an object threshold is set: below, a percentile of 5 is the smallest of them."""

NOT_SHOWN = "does-not-show-label"
DUPLICATE = "duplicate"
UNANSWERED = "unanswered"

SampleKey = tuple[HuntPhase, str, int | None]
"""The phase, the label, and the number of the description."""


@dataclass
class RecordedHunt:
    """The items of a hunt so far, by what they are for."""

    samples: dict[SampleKey, list[HuntItem]] = field(default_factory=dict)
    captions: list[HuntItem] = field(default_factory=list)
    described: dict[int, tuple[str, HuntInstruction]] = field(default_factory=dict)
    """By number of a description, its label and what its first image was asked for."""
    last: HuntPhase = "baseline"
    rounds: int = 0
    """Stages of images of descriptions."""
    made: int = 0
    seconds: float = 0.0
    cost: Cost = field(default_factory=Cost)

    @classmethod
    def of(cls, items: Iterable[HuntItem]) -> RecordedHunt:
        """Sort the items of a run, in planned order."""
        hunt, stages = cls(), set[int]()
        for item in items:
            told = item.instruction
            if told is None:
                continue
            hunt.last = told.phase
            if item.result is not None:
                hunt.made += item.kind == "sample"
                hunt.seconds += sum(item.result.service_seconds.values())
                hunt.cost += item.result.cost
            if told.phase == "captions":
                hunt.captions.append(item)
                continue
            hunt.samples.setdefault((told.phase, item.label, told.hypothesis), []).append(item)
            if told.phase == "hypothesis":
                stages.add(item.stage)
                if told.hypothesis is not None:
                    hunt.described.setdefault(told.hypothesis, (item.label, told))
        hunt.rounds = len(stages)
        return hunt

    def of_label(self, phase: HuntPhase, label: str, number: int | None = None) -> list[HuntItem]:
        """The images of a label's baseline, or of the description of this number."""
        return self.samples.get((phase, label, number), [])

    def threshold(self, label: str) -> LabelObject:
        """Return the similarity below which an image does not show its label.

        There are no photographs to set it by, as in a shift benchmark: the baseline images that some
        classifier answers rightly stand for them.
        """
        shown = [
            item.result.object_similarity
            for item in self.of_label("baseline", label)
            if item.result is not None
            and item.result.object_similarity is not None
            and any(pair.rank_true == 1 for pair in item.result.predictions.values())
        ]
        if len(shown) < LEAST_SHOWN:
            return LabelObject(threshold=None, n=len(shown))
        found = object_thresholds({label: shown}, checkpoint="").by_class[label]
        return LabelObject(threshold=found.threshold.estimate, n=len(shown))


@dataclass
class Counted:
    """The failures among images that count, and the others by reason."""

    made: int
    failures: list[HuntItem] = field(default_factory=list)
    successes: list[HuntItem] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def counts(self) -> FailureCounts:
        """The two numbers."""
        return FailureCounts(len(self.failures), len(self.failures) + len(self.successes))

    @property
    def hidden(self) -> int:
        """Images that would be failures, but do not show their label."""
        return self.dropped[NOT_SHOWN]


def count_failures(items: Sequence[HuntItem], classifier: str, shown_from: float | None) -> Counted:
    """Count the images on which one classifier fails.

    An image counts once however often it was drawn. Where CLIP sees less of the label than ``shown_from`` and
    no classifier answers with it, the image does not show it: it is the generator's failure.
    """
    counted, seen = Counted(len(items)), set[str]()
    for item in items:
        result = item.result
        if item.state != "done" or result is None:
            counted.dropped[item.reason or item.code or item.state] += 1
        elif result.image in seen:
            counted.dropped[DUPLICATE] += 1
        elif classifier not in result.failed:
            counted.dropped[UNANSWERED] += 1
        elif not result.failed[classifier]:
            counted.successes.append(item)
        elif not shows_label(item, shown_from):
            counted.dropped[NOT_SHOWN] += 1
        else:
            counted.failures.append(item)
        if result is not None:
            seen.add(result.image)
    return counted


def shows_label(item: HuntItem, shown_from: float | None) -> bool:
    """Return False where neither CLIP nor any classifier sees the label in the image."""
    result = item.result
    if result is None or shown_from is None or result.object_similarity is None:
        return True
    if result.object_similarity >= shown_from:
        return True
    return any(pair.rank_true == 1 for pair in result.predictions.values())
