"""Families of hypotheses "p(true class) falls beyond the controls", tested and corrected together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from counterpose_core.contract.stress_test_figures import LEAST_SHOWN, SHOWN_LEVEL, CellStatus, Tested
from counterpose_core.statistics.contrast import Contrast, sources_needed
from counterpose_core.statistics.p_values import benjamini_hochberg, holm, rejectable
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator


@dataclass(frozen=True)
class Family:
    """Hypotheses that are corrected together: the method, the level, and the smallest drop worth a claim.

    The intervals that stand beside a claim must not hold 0. They cover a mean at any number of sources, so
    they are wider than a test by relabelling, and a reader believes them.
    """

    name: str
    level: float
    correct: Callable[[Sequence[float]], list[float]]
    least_drop: float


CLASSIFIERS = Family("classifiers x (losses, gains), Holm at 0.05", SHOWN_LEVEL, holm, LEAST_SHOWN)
EDIT_TYPES = Family("classifier x edit type, Holm at 0.05", SHOWN_LEVEL, holm, LEAST_SHOWN)

CHANGES = Family(
    "classifier x class x words, Benjamini-Hochberg at 0.10", 0.10, benjamini_hochberg, LEAST_SHOWN
)
"""Every class x words or cluster of words of every classifier, shown in the summary or not.

One family for a run: with one for each classifier, some of many classifiers show a change by chance. With a
very stable classifier a loss of a thousandth is significant, so an insight needs 0.05. Leaving out findings
that others cover, after the correction, could raise the rate of false ones among those shown (Katsevich,
Sabatti and Bogomolov 2023); in simulation it stays the same.
"""


@dataclass(frozen=True)
class Hypotheses:
    """One family with its contrasts by figure; None is a cell without a source that has edit and placebo.

    Only contrasts that could be ``significant`` are members (Tarone 1990): membership depends on numbers of
    images alone, never on predictions. The others still state their raw p.
    """

    family: Family
    contrasts: Mapping[str, Contrast | None]
    estimator: LanceEstimator

    @cached_property
    def adjusted(self) -> dict[str, float]:
        """Figure → corrected p of each member of the family."""
        known = {figure: found for figure, found in self.contrasts.items() if found is not None}
        members = rejectable([found.least_p for found in known.values()], self.family.level)
        raw = {
            figure: self._p(figure, found)
            for (figure, found), member in zip(known.items(), members, strict=True)
            if member
        }
        return dict(zip(raw, self.family.correct(list(raw.values())), strict=True))

    @cached_property
    def found(self) -> set[str]:
        """The figures whose drop is shown and reaches the family's smallest drop."""
        return {
            figure
            for figure, p in self.adjusted.items()
            if p <= self.family.level and self._mean(figure) >= self.family.least_drop
        }

    def tested(self, figure: str, change: Estimate | None = None) -> Tested:
        """The result of one cell; its detectable drop is that at the first step of the correction.

        ``change`` is the change of p(true class) that is shown beside it: the detectable drop is never finer
        than its interval.
        """
        contrast = self.contrasts[figure]
        if contrast is None:
            return Tested(
                status="insufficient",
                family=self.family.name,
                family_size=len(self.adjusted),
                sources_needed=self.sources_needed(figure),
            )
        beyond = contrast.estimate(self.estimator.generator(f"{figure}/beyond-controls"))
        shown = figure in self.found and not _denied(beyond, change, self.family.least_drop)
        status: CellStatus = "significant" if shown else "not-shown"
        return Tested(
            status=status if figure in self.adjusted else "insufficient",
            significant=shown,
            beyond_controls=beyond,
            p=self._p(figure, contrast),
            p_adjusted=self.adjusted.get(figure),
            family=self.family.name,
            family_size=len(self.adjusted),
            sources_needed=self.sources_needed(figure),
            detectable_drop=self._detectable(contrast, max(_reach(beyond), _fall(change))),
        )

    def p(self, figure: str) -> float | None:
        """The raw p of a figure; None without a contrast."""
        contrast = self.contrasts[figure]
        return None if contrast is None else self._p(figure, contrast)

    def sources_needed(self, figure: str) -> int | None:
        """The number of sources like its own with which it would be a member; None where it is one.

        All hypotheses with as many images or more would be members too, and are counted.
        """
        if figure in self.adjusted:
            return None
        contrast = self.contrasts[figure]
        least = [found.least_p for found in self.contrasts.values() if found is not None]
        if contrast is None:
            return sources_needed(self.family.level / (len(least) + 1))
        return contrast.needed(self.family.level / sum(p <= contrast.least_p for p in least))

    def _mean(self, figure: str) -> float:
        contrast = self.contrasts[figure]
        return 0.0 if contrast is None else contrast.mean

    def _detectable(self, contrast: Contrast, unseen: float) -> float | None:
        """The drop that the test finds, at least ``unseen``: how much more than was seen may be lost.

        The test's power is told from the spread of the images seen. Of few images that hardly change, it says
        that a thousandth would be found, although a loss that one image in ten has is as likely not seen.
        """
        drop = contrast.detectable(self.family.level / max(1, len(self.adjusted)))
        least = max(drop or 0.0, unseen, self.family.least_drop)
        return None if drop is None or least > 1.0 else least

    def _p(self, figure: str, contrast: Contrast) -> float:
        if figure not in self._raw:
            self._raw[figure] = contrast.p(self.estimator.generator(f"{figure}/p"))
        return self._raw[figure]

    @cached_property
    def _raw(self) -> dict[str, float]:
        return {}


def _denied(loss: Estimate, change: Estimate | None, least: float) -> bool:
    """Whether the interval of a loss, or the change shown beside it with its own, speaks against a loss."""
    if loss.low is None or loss.low <= 0.0:
        return True
    if change is None or change.estimate is None or change.high is None:
        return False
    return change.high >= 0.0 or -change.estimate < least


def _reach(loss: Estimate) -> float:
    """How far the interval of a loss goes above its estimate."""
    return 0.0 if loss.high is None or loss.estimate is None else loss.high - loss.estimate


def _fall(change: Estimate | None) -> float:
    """How far the interval of a change goes below its estimate."""
    if change is None or change.low is None or change.estimate is None:
        return 0.0
    return change.estimate - change.low
