"""Rates of rare failures: images are drawn where failures are known to be, and weighted back to the whole.

A failure of one image in 100,000 takes two million images to be seen 20 times. If descriptions are known in
which it is frequent, and how often the generator draws by itself what they say, few images of each do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from counterpose_core.bug_hunt.comparison import FailureCounts
from counterpose_core.statistics.bootstrap import CONFIDENCE
from counterpose_core.types import Estimate

DEFENSIVE = 0.5
"""Share of the images that is divided as the generator would: no weight is above twice a naive one's."""

_TAIL = (1.0 - CONFIDENCE) / 2.0
_PILOT = 0.5
"""Added to failures and successes of a pilot: where all of a few images fail, some of the next may not."""


@dataclass(frozen=True)
class Stratum:
    """Images of one description, or of everything that no description says.

    Attributes:
        share: how often the generator draws it by itself, in [0, 1]; over all strata the sum is 1.
        failures: failures among its images.
        images: how many were drawn, fixed before any of them was seen.
    """

    share: float
    failures: int
    images: int

    @property
    def weight(self) -> float:
        """How much of the whole one of its images stands for."""
        return self.share / self.images


def allocate(
    shares: Sequence[float], pilot: Sequence[FailureCounts], images: int, *, defensive: float = DEFENSIVE
) -> list[int]:
    """Divide images over strata so that the rate of the whole varies least (Neyman 1934).

    Proportionally to the share times the standard deviation that the pilot shows, after a part was divided
    by the shares alone: what the pilot missed is still seen, and no image stands for more than
    ``1 / defensive`` images of the whole (a defensive mixture; Hesterberg 1995).

    Args:
        shares: how often the generator draws each stratum (s,).
        pilot: images of each by which it is divided; they must not be counted again.
        images: how many to divide, at least one of each stratum.
        defensive: the part that is divided by the shares, in (0, 1].

    Raises:
        ValueError: there are fewer images than strata.
    """
    if images < len(shares):
        raise ValueError(f"{images} images are too few for {len(shares)} strata")
    natural = np.asarray(shares, dtype=np.float64)
    wanted = natural * np.array([_deviation(each) for each in pilot])
    aimed = wanted / wanted.sum() if wanted.any() else natural / natural.sum()
    divided = defensive * natural + (1.0 - defensive) * aimed
    # Rounding of floats must not take an image away.
    return [1 + math.floor((images - len(shares)) * share + 1e-6) for share in divided]


def divide(shares: Sequence[float], pilots: Sequence[Sequence[FailureCounts]], images: int) -> list[int]:
    """Divide images that several classifiers share: the mean of what is best for each.

    Args:
        shares: the share of each stratum (s,); their sum is 1.
        pilots: for each classifier, the images of each stratum by which it is divided (c, s).
        images: how many to divide.

    Raises:
        ValueError: there are fewer images than strata.
    """
    each = np.array([allocate(shares, pilot, images) for pilot in pilots])
    return [int(number) for number in each.sum(axis=0) // len(pilots)]


def _deviation(pilot: FailureCounts) -> float:
    """The standard deviation of one image's failure; 0 where the pilot shows none."""
    rate = (pilot.failures + _PILOT) / (pilot.images + 2.0 * _PILOT) if pilot.failures else 0.0
    return math.sqrt(rate * (1.0 - rate))


def rare_rate(strata: Sequence[Stratum]) -> Estimate:
    """Return the failure rate of the whole with a 95 % interval: unbiased, however the images were divided.

    The interval is Fay and Feuer's (1997) for weighted counts of rare events: conservative, and its upper end
    is that of one more failure in the heaviest stratum, so that it tells of what was seen to fail nowhere.
    Without the stratum that no description says, it is the rate of what the descriptions say alone.

    Args:
        strata: at least one; images that decided how many each gets are not among them.
    """
    weights = np.array([each.weight for each in strata])
    failures = np.array([each.failures for each in strata], dtype=np.float64)
    rate, variance = float(weights @ failures), float(weights**2 @ failures)
    low = 0.0 if rate == 0.0 else _gamma_end(rate, variance, _TAIL)
    high = _gamma_end(rate + weights.max(), variance + weights.max() ** 2, 1.0 - _TAIL)
    return Estimate(estimate=rate, low=low, high=min(1.0, high), n=sum(each.images for each in strata))


def contribution(mentions: Mapping[int, bool], described: Mapping[int, bool]) -> Estimate:
    """Return which share of all images of a label fail as a description says, with a 95 % interval.

    The share of the label's own images whose captions say what the description does, times the failure rate
    of the description's images. Images of one place start from one noise, so that a place is never
    multiplied with itself: over pairs of two places the product is unbiased. The interval is the product of
    both exact intervals, each of half the error, and holds whatever the two have in common.

    Args:
        mentions: whether each caption says it, by the place of its image, which nothing has chosen.
        described: whether each image of the description fails, by place.
    """
    known, failed = (FailureCounts(sum(each.values()), len(each)) for each in (mentions, described))
    same = [mentions[place] and described[place] for place in mentions if place in described]
    pairs = known.images * failed.images - len(same)
    if pairs == 0:
        return Estimate(estimate=None, low=None, high=None, n=known.images)
    rate = (known.failures * failed.failures - sum(same)) / pairs
    (low, high), (least, most) = (_exact(each, 1.0 - _TAIL) for each in (known, failed))
    return Estimate(estimate=rate, low=min(low * least, rate), high=max(high * most, rate), n=known.images)


def _exact(counts: FailureCounts, confidence: float) -> tuple[float, float]:
    """Clopper-Pearson's ends; of two of 97.5 %, both hold in 95 %."""
    tail, k, n = (1.0 - confidence) / 2.0, counts.failures, counts.images
    low = float(scipy.special.betaincinv(k, n - k + 1, tail)) if k else 0.0
    high = float(scipy.special.betaincinv(k + 1, n - k, 1.0 - tail)) if k < n else 1.0
    return low, high


def _gamma_end(mean: float, variance: float, level: float) -> float:
    """Return the quantile of the gamma distribution of this mean and variance."""
    return float(scipy.special.gammaincinv(mean**2 / variance, level) * variance / mean)
