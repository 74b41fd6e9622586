"""The body of ``POST /v1/bug-hunts/estimate``: what a bug hunt would cost, and the least that it can find."""

from __future__ import annotations

from pydantic import Field

from counterpose_core.contract.base import DISTINCT, ResponseBody
from counterpose_core.contract.bug_hunts import BugHuntCreate, HuntShares
from counterpose_core.contract.spending import SpendingEstimate, number_of
from counterpose_core.types import ClassifierSpec


class BugHuntQuestion(BugHuntCreate):
    """``POST /v1/bug-hunts/estimate``: a hunt that is asked about."""

    classifiers: list[ClassifierSpec] = Field(default=[], max_length=128, json_schema_extra=DISTINCT)
    """The classifiers to test, which are looked up as for the hunt; without any, only its budget is looked
    at, for one."""


class UndrawnImages(ResponseBody):
    """Images that an estimate did not draw, to see whether they can be drawn: a hunt draws them first."""

    prompts: list[str]
    """The prompt of each."""
    why: str
    """Why they were not drawn, and what therefore was not looked at."""
    spending: SpendingEstimate
    """What they take at most."""

    @property
    def lines(self) -> list[str]:
        """All of it in sentences."""
        return [f"not drawn: {number_of(len(self.prompts), 'image')}, {self.why}", *self.spending.lines]


class BugHuntEstimate(ResponseBody):
    """What a bug hunt would take and what it could find and prove, without creating it."""

    images: int
    """Most images that the hunt would generate."""
    captions: int
    """Most images that it would caption."""
    minutes: float | None
    """Minutes that they would take at the median rate of this gateway's earlier hunts, or null if there are
    none."""
    fastest: float | None
    """The same at the rate of the fastest of them."""
    slowest: float | None
    """The same at the rate of the slowest of them."""
    runs: int
    """Number of earlier hunts whose rates were taken."""
    images_in_time: int | None
    """Images that the budget's minutes allow at the median rate, or null where it has none or no rate is
    known."""
    shares: HuntShares | None
    """How each label's part is spent, by the smaller of both budgets; null if it is too small."""
    tests: int
    """Most descriptions that are tested together on held-out images."""
    power: float
    """Probability with which the rates below are found and proven."""
    findable: float | None
    """Smallest failure rate of the label alone of which two failures are seen, without which nothing can be
    described; null if no rate is, or nothing is searched."""
    provable: float | None
    """Smallest failure rate of a description that held-out images prove where the label alone never fails;
    null if they prove none."""
    reason: str | None
    """Why nothing can be found or proven, or null if something can."""
    undrawn: UndrawnImages | None = Field(default=None, exclude_if=lambda undrawn: undrawn is None)
    """What was not drawn, or null if all was or nothing needs to be."""

    def __str__(self) -> str:
        took = "minutes unknown: no earlier hunt to go by"
        if self.minutes is not None:
            took = (
                f"about {self.minutes:.0f} minutes ({self.fastest:.0f} to {self.slowest:.0f}, by {self.runs} "
                f"earlier hunt{'s' if self.runs != 1 else ''})"
            )
        lines = [f"at most {self.images} images and {self.captions} captions, {took}"]
        if self.images_in_time is not None:
            lines.append(f"in its minutes about {self.images_in_time} images")
        if self.shares is not None and self.shares.mixture:
            lines.append(f"of these, {self.shares.mixture} images of each label measure the mixture's rate")
        if self.undrawn is not None:
            lines += self.undrawn.lines
        if self.reason is not None:
            return "\n".join([*lines, f"Nothing can be found: {self.reason}."])
        if self.findable is not None:
            lines.append(
                f"a label that fails on {_rate(self.findable)} of its images or more shows two failures, as "
                f"descriptions need, with probability {self.power:g}"
            )
        return "\n".join(
            [
                *lines,
                f"a description that fails on {_rate(self.provable)} or more is proven with probability "
                f"{self.power:g}, where the label alone never fails",
            ]
        )


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.2g} %"
