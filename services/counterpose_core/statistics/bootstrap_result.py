"""A bootstrapped mean with its draws and moments, from which its interval and p-value follow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy
from numpy.typing import NDArray

from counterpose_core.statistics.bootstrap import CONFIDENCE, Floats, agreeing_ends, bca_ends
from counterpose_core.types import Estimate

Singles = NDArray[np.float32]

_TAILS = ((1.0 - CONFIDENCE) / 2.0, (1.0 + CONFIDENCE) / 2.0)
_NO_SPREAD = 1e-9


@cache
def tails_of(freedom: int) -> Floats:
    """Return Student's two quantiles of a 95 % interval; normal ones are too narrow for few images."""
    tails: Floats = scipy.stats.t.ppf(_TAILS, max(1, freedom))
    tails.setflags(write=False)
    return tails


@dataclass(frozen=True)
class BootstrapResult:
    """Means (...), their bootstrap ``draws`` (draws, ...), and the second and third moments of the means."""

    mean: Floats
    draws: Singles
    second: Floats
    third: Floats

    def plus(self, other: BootstrapResult, sign: float) -> BootstrapResult:
        """Return the sum of this mean and ``sign`` times another, which was drawn with the same seeds."""
        draws = self.draws + np.float32(sign) * other.draws
        mean = self.mean + sign * other.mean
        deviations = draws.astype(np.float64) - draws.mean(axis=0, dtype=np.float64)
        return BootstrapResult(
            mean,
            draws,
            np.asarray(np.mean(deviations**2, axis=0)),
            np.asarray(np.mean(deviations**3, axis=0)),
        )

    def estimate(
        self, at: tuple[int, ...], *, images: int, freedom: int, bounds: tuple[float, float]
    ) -> Estimate:
        """Return the mean at an index with its 95 % interval.

        The interval is the hull of BCa (Efron 1987) and Student's t, as for means over sources; if all images
        agree, it is the exact bound on the share that would differ.

        Args:
            at: the index of the mean.
            images: the number of images behind it, which is the n of the estimate.
            freedom: the degrees of freedom of Student's t.
            bounds: the least and the largest possible value; the interval stays inside.
        """
        mean, deviation = float(self.mean[at]), math.sqrt(float(self.second[at]))
        if deviation <= _NO_SPREAD:
            low, high = agreeing_ends(mean, images, bounds)
        else:
            tails = tails_of(freedom)
            skew = float(self.third[at]) / (6.0 * deviation**3)
            draws = self.draws.reshape(len(self.draws), -1)[:, np.ravel_multi_index(at, self.mean.shape)]
            low, high = bca_ends(mean, draws.astype(np.float64), skew=skew, tails=tails)
            low, high = min(low, mean + tails[0] * deviation), max(high, mean + tails[1] * deviation)
        low, high = (float(end) for end in np.clip([low, high], *bounds))
        return Estimate(estimate=mean, low=min(low, mean), high=max(high, mean), n=images)

    def p(self, at: tuple[int, ...], *, images: int, freedom: int) -> float:
        """Return the two-sided p of "the mean is 0", by Student's t, or by signs if all images agree."""
        mean, deviation = float(self.mean[at]), math.sqrt(float(self.second[at]))
        if deviation > _NO_SPREAD:
            return float(2.0 * scipy.stats.t.sf(abs(mean) / deviation, max(1, freedom)))
        return 1.0 if abs(mean) <= _NO_SPREAD else 0.5 ** (images - 1)
