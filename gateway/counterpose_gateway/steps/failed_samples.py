"""Which generated images of a label count as failures of a classifier, and which do not show the label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from counterpose_core.bug_hunt.comparison import FailureCounts
from counterpose_core.shift_benchmark.object_thresholds import object_thresholds
from counterpose_core.types import BlobRef, ItemState

LEAST_SHOWN = 20
"""Right answers by which an object threshold is set: below, a percentile of 5 is the smallest of them."""

NOT_SHOWN = "does-not-show-label"
DUPLICATE = "duplicate"
UNANSWERED = "unanswered"
UNFINISHED = ("pending", "leased", "cancelled", "out-of-time")
"""What is counted of images that are not made yet, or never will be."""


class Answer(Protocol):
    """A classifier's answer to an image; `counterpose_core.contract.scored.Scored` is one."""

    @property
    def right(self) -> bool:
        """Whether it is right."""

    @property
    def answer(self) -> str:
        """It in words."""


class ClassifiedImage(Protocol):
    """An image with every answer to it; `counterpose_core.contract.samples.SampleResult` is one."""

    @property
    def image(self) -> BlobRef:
        """The image."""

    @property
    def object_similarity(self) -> float | None:
        """CLIP's cosine with the caption of the label."""

    @property
    def predictions(self) -> Mapping[str, Answer]:
        """The answers, by classifier."""

    @property
    def failed(self) -> Mapping[str, bool]:
        """Whether each classifier that answered fails."""


class Sample(Protocol):
    """An item of any run whose image was generated from a prompt and shown to classifiers."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def slot(self) -> int:
        """Its place among the images of its prompt."""

    @property
    def state(self) -> ItemState:
        """Its state."""

    @property
    def reason(self) -> str | None:
        """Why a filter dropped it."""

    @property
    def code(self) -> str | None:
        """Why it failed."""

    @property
    def result(self) -> ClassifiedImage | None:
        """The image and the answers."""


SampleT = TypeVar("SampleT", bound=Sample)


@dataclass(frozen=True)
class LabelThreshold:
    """Below which similarity an image does not show its label, of how many images; None of too few."""

    threshold: float | None
    n: int


def label_threshold(baseline: Iterable[Sample]) -> LabelThreshold:
    """Return the similarity below which an image does not show its label.

    There are no photographs to set it by, as in a shift benchmark: the baseline images that some classifier
    answers rightly stand for them.
    """
    shown = [
        item.result.object_similarity
        for item in baseline
        if item.result is not None
        and item.result.object_similarity is not None
        and any(pair.right for pair in item.result.predictions.values())
    ]
    if len(shown) < LEAST_SHOWN:
        return LabelThreshold(None, len(shown))
    found = object_thresholds({"label": shown}, checkpoint="").by_class["label"]
    return LabelThreshold(found.threshold.estimate, len(shown))


@dataclass
class Counted(Generic[SampleT]):
    """The failures among images that count, and the others by reason."""

    made: int
    failures: list[SampleT] = field(default_factory=list)
    successes: list[SampleT] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    answers: list[tuple[int, bool]] = field(default_factory=list)
    """The place of each image that counts, and whether it is a failure, in the order of drawing."""
    classifier: str = ""
    shown_from: float | None = None

    @property
    def counts(self) -> FailureCounts:
        """The two numbers."""
        return FailureCounts(len(self.failures), len(self.failures) + len(self.successes))

    @property
    def is_whole(self) -> bool:
        """Whether every image that was planned has ended by itself, and nobody stopped the drawing."""
        return not any(self.dropped[reason] for reason in UNFINISHED)

    @property
    def hidden(self) -> int:
        """Images that would be failures, but do not show their label."""
        return self.dropped[NOT_SHOWN]


def seen_by_clip(counted: Counted[SampleT]) -> int | None:
    """Return how many of the failures show the label to CLIP, or None where no threshold is known."""
    shown_from = counted.shown_from
    if shown_from is None:
        return None
    seen = (item.result.object_similarity for item in counted.failures if item.result is not None)
    return sum(similarity is not None and similarity >= shown_from for similarity in seen)


def recognised(counted: Counted[SampleT]) -> dict[str, int]:
    """Return how many of the failures each other classifier answers rightly: controls of the generator."""
    found: dict[str, int] = {}
    for item in counted.failures:
        if item.result is None:
            continue
        for name, pair in item.result.predictions.items():
            if name != counted.classifier:
                found[name] = found.get(name, 0) + (pair.right)
    return found


def count_failures(items: Sequence[SampleT], classifier: str, shown_from: float | None) -> Counted[SampleT]:
    """Count the images on which one classifier fails.

    An image counts once however often it was drawn. Where CLIP sees less of the label than ``shown_from`` and
    no classifier answers with it, the image does not show it: it is the generator's failure.
    """
    counted, seen = Counted[SampleT](len(items), classifier=classifier, shown_from=shown_from), set[str]()
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
            counted.answers.append((item.slot, False))
        elif not shows_label(item, shown_from):
            counted.dropped[NOT_SHOWN] += 1
        else:
            counted.failures.append(item)
            counted.answers.append((item.slot, True))
        if result is not None:
            seen.add(result.image)
    return counted


def shows_label(item: Sample, shown_from: float | None) -> bool:
    """Return False where neither CLIP nor any classifier sees the label in the image."""
    result = item.result
    if result is None or shown_from is None or result.object_similarity is None:
        return True
    if result.object_similarity >= shown_from:
        return True
    return any(pair.right for pair in result.predictions.values())
