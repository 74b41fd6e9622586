"""Families of hypotheses "p(true class) falls beyond the controls", tested and corrected together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from faultline_core.contract.stress_tests import CellStatus, Tested
from faultline_core.statistics.contrast import LEAST_SOURCES, Contrast
from faultline_core.statistics.p_values import benjamini_hochberg, holm
from faultline_gateway.methods.stress_test.summary.estimates import LanceEstimator


@dataclass(frozen=True)
class Family:
    """Hypotheses that are corrected together: the method, the level, and the smallest drop worth a claim."""

    name: str
    level: float
    correct: Callable[[Sequence[float]], list[float]]
    least_drop: float = 0.0


CLASSIFIERS = Family("classifiers, Holm at 0.05", 0.05, holm)
EDIT_TYPES = Family("classifier x edit type, Holm at 0.05", 0.05, holm)


def clusters_of(classifier: str) -> Family:
    """Every class x words or cluster of words of one classifier, shown in the summary or not.

    With a very stable classifier a drop of a thousandth is significant, so an insight needs 0.05.
    """
    name = f"class x words for {classifier}, Benjamini-Hochberg at 0.10"
    return Family(name, 0.10, benjamini_hochberg, least_drop=0.05)


@dataclass(frozen=True)
class Hypotheses:
    """One family with its contrasts by figure; None is a cell without edits or placebos.

    A contrast of fewer than 20 sources is not a member: membership depends on words and filters alone,
    never on predictions, so leaving such contrasts out biases nothing, and they could not be
    ``significant`` anyway. They still state their raw p.
    """

    family: Family
    contrasts: Mapping[str, Contrast | None]
    estimator: LanceEstimator

    @cached_property
    def adjusted(self) -> dict[str, float]:
        """Figure → corrected p of each member of the family."""
        raw = {
            figure: self._p(figure, contrast)
            for figure, contrast in self.contrasts.items()
            if contrast is not None and contrast.n >= LEAST_SOURCES
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

    def tested(self, figure: str) -> Tested:
        """The result of one cell; its detectable drop is that at the first step of the correction."""
        contrast = self.contrasts[figure]
        if contrast is None:
            return Tested(status="insufficient", family=self.family.name, family_size=len(self.adjusted))
        status: CellStatus = "significant" if figure in self.found else "not-shown"
        return Tested(
            status=status if figure in self.adjusted else "insufficient",
            significant=figure in self.found,
            beyond_controls=contrast.estimate(self.estimator.generator(f"{figure}/beyond-controls")),
            p=self._p(figure, contrast),
            p_adjusted=self.adjusted.get(figure),
            family=self.family.name,
            family_size=len(self.adjusted),
            detectable_drop=self._detectable(contrast),
        )

    def _mean(self, figure: str) -> float:
        contrast = self.contrasts[figure]
        return 0.0 if contrast is None else contrast.mean

    def _detectable(self, contrast: Contrast) -> float | None:
        drop = contrast.detectable(self.family.level / max(1, len(self.adjusted)))
        return None if drop is None else max(drop, self.family.least_drop)

    def _p(self, figure: str, contrast: Contrast) -> float:
        return contrast.p(self.estimator.generator(f"{figure}/p"))
