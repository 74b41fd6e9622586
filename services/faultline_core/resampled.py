"""A mean with the draws of its bootstrap and the moments of its parts: its interval and its p-value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from faultline_core.statistics import CONFIDENCE, Floats, agreeing_ends, bca_ends
from faultline_core.types import Estimate

Singles = NDArray[np.float32]

_TAILS = ((1.0 - CONFIDENCE) / 2.0, (1.0 + CONFIDENCE) / 2.0)
_NO_SPREAD = 1e-9


@cache
def tails_of(freedom: int) -> Floats:
    """Student's two quantiles of a 95 % interval: a normal one knows too well what few pictures say."""
    tails: Floats = stats.t.ppf(_TAILS, max(1, freedom))
    tails.setflags(write=False)
    return tails


@dataclass(frozen=True)
class Resampled:
    """A mean (...), its ``draws`` (draws, ...), and what its pictures add to its second and third moment."""

    mean: Floats
    draws: Singles
    second: Floats
    third: Floats

    def estimate(
        self, at: tuple[int, ...], *, pictures: int, freedom: int, bounds: tuple[float, float]
    ) -> Estimate:
        """The mean at an index with its interval inside ``bounds``; n counts the ``pictures``.

        The hull of BCa (Efron 1987) and Student's t of ``freedom`` degrees, as for means over sources;
        where all pictures agree, the exact bound on the share that would differ.
        """
        mean, deviation = float(self.mean[at]), math.sqrt(float(self.second[at]))
        if deviation <= _NO_SPREAD:
            low, high = agreeing_ends(mean, pictures, bounds)
        else:
            tails = tails_of(freedom)
            skew = float(self.third[at]) / (6.0 * deviation**3)
            draws = self.draws.reshape(len(self.draws), -1)[:, np.ravel_multi_index(at, self.mean.shape)]
            low, high = bca_ends(mean, draws.astype(np.float64), skew=skew, tails=tails)
            low, high = min(low, mean + tails[0] * deviation), max(high, mean + tails[1] * deviation)
        low, high = (float(end) for end in np.clip([low, high], *bounds))
        return Estimate(estimate=mean, low=min(low, mean), high=max(high, mean), n=pictures)

    def p(self, at: tuple[int, ...], *, pictures: int, freedom: int) -> float:
        """Two-sided p of "the mean is 0", by Student's t; where all pictures agree, by their signs."""
        mean, deviation = float(self.mean[at]), math.sqrt(float(self.second[at]))
        if deviation > _NO_SPREAD:
            return float(2.0 * stats.t.sf(abs(mean) / deviation, max(1, freedom)))
        return 1.0 if abs(mean) <= _NO_SPREAD else 0.5 ** (pictures - 1)
