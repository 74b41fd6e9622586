"""The body of ``POST /v1/stress-tests/estimate``: what a stress test would cost, and what it can prove."""

from __future__ import annotations

from pydantic import Field

from counterpose_core.contract.base import DISTINCT, ResponseBody
from counterpose_core.contract.baselines import ClassifierBaseline
from counterpose_core.contract.confirmation import ConfirmationScope
from counterpose_core.contract.spending import SpendingEstimate
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.types import ClassifierSpec

SHOWN_CLASSES = 8


class StressTestQuestion(StressTestCreate):
    """``POST /v1/stress-tests/estimate``: a stress test that is asked about."""

    classifiers: list[ClassifierSpec] = Field(default=[], max_length=64, json_schema_extra=DISTINCT)
    """The classifiers to test. They answer the first images as for the run, which gives `baseline`; no other
    figure depends on them."""


class ProvableClass(ResponseBody):
    """What can be proven on the images of one class."""

    object_class: str
    """The class."""
    images: int
    """Number of its images that the run takes."""
    pairs: int
    """Number of pairs of an edit and a placebo to expect for a change that applies to all of its images."""
    scope: ConfirmationScope = "class"
    """Whether the pairs are of different images and prove something of the `class`, or are draws of a few
    `images` and prove something of these."""
    share: float | None
    """Smallest share of its images, from 0 to 1, that a change must fool to be proven with the probability
    `power`; null if none can be proven."""


class StressTestEstimate(ResponseBody):
    """What a stress test would take and what it could prove, without creating it."""

    images: int
    """Number of source images."""
    screened: int
    """Number of them that the screen edits."""
    fresh: int
    """Number of them that are kept for confirmation."""
    items: int
    """Most items that the run would have, in all stages."""
    minutes: float | None
    """Minutes that they would take at the median rate of this gateway's earlier runs, or null if there are
    none."""
    fastest: float | None
    """The same at the rate of the fastest of them."""
    slowest: float | None
    """The same at the rate of the slowest of them."""
    runs: int
    """Number of earlier runs whose rates were taken."""
    hypotheses: int
    """Number of changes that would be tested together."""
    least_pairs: int
    """Number of pairs n without which none of them can be proven: 2^-n is the least p-value."""
    power: float
    """Probability with which the shares of `classes` are proven."""
    classes: list[ProvableClass]
    """What can be proven by class, in the dataset's order."""
    baseline: list[ClassifierBaseline] = []
    """What each classifier answers to the first images as they are."""
    operations: int | None = None
    """Number of images that operations make of all photographs, at most where levels are asked adaptively;
    null for edits alone."""
    operation_tests: int | None = Field(default=None, exclude_if=lambda number: number is None)
    """Number of tests of operations, which are corrected apart from the changes; absent in a run of edits or
    of operations alone, whose tests are `hypotheses`."""
    operation_least: int | None = Field(default=None, exclude_if=lambda number: number is None)
    """Number of images that an operation must lose, and gain none, for a loss to be shown; absent where
    `operation_tests` is."""
    reason: str | None
    """Why nothing can be confirmed, or null if something can."""
    spending: SpendingEstimate | None = Field(default=None, exclude_if=lambda spending: spending is None)
    """What it would ask servers of others for at most; absent where no service calls one."""

    @property
    def sentences(self) -> list[str]:
        """What can be proven, the least share first, one line for classes of which the same can be."""
        if self.operations is not None and self.operation_tests is None:
            return [_shown_loss(self.least_pairs, self.hypotheses, self.images)]
        apart: list[str] = []
        if self.operation_tests is not None and self.operation_least is not None:
            apart = [
                f"Operations, corrected apart from the edits, make {self.operations} images. "
                + _shown_loss(self.operation_least, self.operation_tests, self.images)
            ]
        if self.reason is not None:
            return [f"Nothing can be confirmed: {self.reason}.", *apart]
        alike: dict[tuple[float, int, ConfirmationScope], list[str]] = {}
        for each in self.classes:
            if each.share is not None:
                alike.setdefault((each.share, each.pairs, each.scope), []).append(each.object_class)
        lines = [
            f"{_listed(names)}: a change that fools {100 * share:.0f} % of {_what(scope)} is proven with "
            f"probability {self.power:g} ({pairs} pairs)."
            for (share, pairs, scope), names in sorted(alike.items())
        ]
        none = [each.object_class for each in self.classes if each.share is None]
        if none:
            lines.append(f"Nothing can be proven on too few images of: {_listed(none)}.")
        return lines + apart

    def __str__(self) -> str:
        took = "minutes unknown: no earlier run to go by"
        if self.minutes is not None:
            took = (
                f"about {_minutes(self.minutes)} ({self.fastest:.0f} to {self.slowest:.0f}, by "
                f"{self.runs} earlier run{'s' if self.runs != 1 else ''})"
            )
        if self.operations is not None and self.operation_tests is None:
            made = f"{self.images} images, of which operations make {self.operations}; {took}"
            return "\n".join([made, *self.sentences, *map(str, self.baseline)])
        tested = f"{self.hypotheses} change{'s' if self.hypotheses != 1 else ''} tested together"
        return "\n".join(
            [
                f"{self.images} images: {self.screened} screened, {self.fresh} kept for confirmation",
                f"at most {self.items} items, {took}",
                *([] if self.reason else [f"{tested}, each on at least {self.least_pairs} pairs"]),
                *([] if self.spending is None else self.spending.lines),
                *self.sentences,
                *map(str, self.baseline),
            ]
        )


def _shown_loss(least: int, tests: int, images: int) -> str:
    too_few = f" {images} image{'s' if images != 1 else ''} can show none." if images < least else ""
    return (
        f"A loss is shown once {least} images are lost and none is gained; {tests} tests, one for each "
        f"operation and classifier, share the error rate.{too_few}"
    )


def _listed(names: list[str]) -> str:
    more = len(names) - SHOWN_CLASSES
    return ", ".join(names[:SHOWN_CLASSES]) + (f" and {more} more" if more > 0 else "")


def _what(scope: ConfirmationScope) -> str:
    return "its images" if scope == "class" else "the repeated edits of a few of its images"


def _minutes(minutes: float) -> str:
    rounded = max(1, round(minutes))
    return f"{rounded} minute{'s' if rounded != 1 else ''}"
