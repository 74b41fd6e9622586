"""The regression of a candidate under a change, and which regressions pass, fail or stay open.

The regression is the share of counterfactuals on which the candidate errs less that on which the incumbent
does, each source image with weight 1. Both see the same images, so what the images have in common cancels.

Errors are compared, not drops from the source images: a candidate that is better on the source images drops
further without being worse anywhere, and one that is worse on both drops less than it errs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from counterpose_core.gate import LEAST_UNITS
from counterpose_core.statistics.bounded_mean import LEAST_SOURCES_FOR_HULL, betting_p, bounded_mean
from counterpose_core.statistics.p_values import holm
from counterpose_core.types import Estimate

LEVEL = 0.05
"""The chance of failing any cell of a candidate whose every regression is within the tolerance."""

Decision = Literal["passed", "failed", "inconclusive", "skipped"]

_BOUNDS = (-1.0, 1.0)
_NO_SPREAD = 1e-12


@dataclass(frozen=True)
class Regression:
    """The regression of one cell with its 95 % interval, and the one-sided p of "within the tolerance"."""

    estimate: Estimate
    p: float

    @property
    def tested(self) -> bool:
        """Whether there are enough units for a test."""
        return self.estimate.n >= LEAST_UNITS


@dataclass(frozen=True)
class Decided:
    """What a cell shows; ``p_adjusted`` is corrected over all tested cells, None where none was tested."""

    state: Decision
    p_adjusted: float | None


def regression(values: ArrayLike, generator: np.random.Generator, *, tolerance: float) -> Regression:
    """Estimate the mean of the units' differences, and test whether it exceeds the tolerance.

    Args:
        values: the candidate's error less the incumbent's, one value per unit (n,), -1 to 1.
        generator: draws the bootstrap.
        tolerance: the regression that is allowed, 0 to 1.
    """
    array = np.asarray(values, dtype=np.float64)
    estimate = bounded_mean(array, generator, bounds=_BOUNDS)
    return Regression(estimate, _p_above(array, tolerance))


def _p_above(values: NDArray[np.float64], tolerance: float) -> float:
    """Return the one-sided p of "the mean is at most the tolerance".

    As the interval: by betting below 40 units or without any spread, else by Student's t.
    """
    if values.size == 0 or values.mean() <= tolerance:
        return 1.0
    spread = float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else 0.0
    if values.size < LEAST_SOURCES_FOR_HULL or spread <= _NO_SPREAD:
        return betting_p(values, tolerance, _BOUNDS)
    return float(scipy.stats.t.sf((float(values.mean()) - tolerance) / spread, values.size - 1))


def decide(regressions: Sequence[Regression], tolerance: float) -> list[Decided]:
    """Decide every cell.

    A cell fails if its whole interval lies above the tolerance and its p, after Holm's correction over all
    tested cells, is at most `LEVEL`. It passes if its whole interval lies at or below the tolerance: the gate
    passes only where every cell does, so this needs no correction (Berger 1982, intersection-union test).
    """
    tested = [each for each in regressions if each.tested]
    adjusted = iter(holm([each.p for each in tested]))
    return [
        _decided(each, tolerance, next(adjusted)) if each.tested else Decided("skipped", None)
        for each in regressions
    ]


def _decided(each: Regression, tolerance: float, p_adjusted: float) -> Decided:
    low, high = each.estimate.low, each.estimate.high
    assert low is not None  # a tested cell has units
    assert high is not None
    if low > tolerance and p_adjusted <= LEVEL:
        return Decided("failed", p_adjusted)
    return Decided("passed" if high <= tolerance else "inconclusive", p_adjusted)


def units_needed(each: Regression, tolerance: float) -> int | None:
    """Return the number of units like these whose interval would end at the tolerance.

    Its upper end, or its lower one where the estimate lies above: then they prove the regression, or, being
    corrected for, nearly do. None where the interval does not contain the tolerance, or the estimate is the
    tolerance. The width falls with the square root of the number.
    """
    mean, low, high = each.estimate.estimate, each.estimate.low, each.estimate.high
    if mean is None or low is None or high is None or not low <= tolerance < high or mean == tolerance:
        return None
    end = high if mean < tolerance else low
    return math.ceil(each.estimate.n * ((end - mean) / (tolerance - mean)) ** 2)
