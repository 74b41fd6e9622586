"""Whether images of a description fail more often than the baseline, and how many times as often."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import scipy

from counterpose_core.statistics.bootstrap import CONFIDENCE

LEVEL = 0.05
POWER = 0.8
_BISECTIONS = 40
_WIDEST = 40.0
"""The logarithm of a ratio that no two counts of a hunt can have."""

_NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class FailureCounts:
    """How many of the images of one prompt failed."""

    failures: int
    images: int

    def __post_init__(self) -> None:
        """Check the counts.

        Raises:
            ValueError: more images failed than there are.
        """
        if not 0 <= self.failures <= self.images:
            raise ValueError(f"{self.failures} of {self.images} images cannot have failed")


@dataclass(frozen=True)
class RateRatio:
    """How many times the baseline's rate: None is unbounded, as where no image of the baseline failed."""

    ratio: float | None
    low: float
    high: float | None


# Kept: a summary of 1,000 labels asks for the same few counts again and again.
@lru_cache(maxsize=16_384)
def above_baseline(described: FailureCounts, baseline: FailureCounts) -> float:
    """Return the one-sided p of "these images fail no more often than the baseline's" (Fisher's exact test).

    The paper calls its captions significantly worse and names no test (section 4.1).
    """
    total, failed = described.images + baseline.images, described.failures + baseline.failures
    # Not scipy's fisher_exact, which costs forty times as much for the same tail.
    return min(1.0, float(scipy.stats.hypergeom.sf(described.failures - 1, total, failed, described.images)))


def rate_ratio(described: FailureCounts, baseline: FailureCounts) -> RateRatio:
    """Return the ratio of two failure rates with the 95 % interval of the score test (Koopman 1984).

    It has a lower end even where no image of the baseline failed, which is the usual case of a rare failure.
    """
    if not described.images or not baseline.images:
        return RateRatio(None, 0.0, None)
    low = 0.0 if described.failures == 0 else _score_end(described, baseline, -1)
    high = None if baseline.failures == 0 else _score_end(described, baseline, 1)
    if baseline.failures == 0:
        return RateRatio(None, low, high)
    rates = [each.failures / each.images for each in (described, baseline)]
    return RateRatio(rates[0] / rates[1], low, high)


def detectable_rate(
    baseline_rate: float, images: int, hypotheses: int, *, level: float = LEVEL, power: float = POWER
) -> float | None:
    """Return the smallest failure rate that is proven to be above the baseline with probability ``power``.

    Args:
        baseline_rate: the baseline's failure rate, in [0, 1].
        images: of the description and of the baseline, each.
        hypotheses: the number of descriptions that are tested together (Bonferroni, as Holm's first step).
        level: the family-wise level.
        power: the probability, in (0, 1).

    Returns:
        The rate, or None where even a description of which every image fails cannot be proven.
    """
    critical = _critical(images, level / hypotheses)
    if _power(1.0, baseline_rate, images, critical) < power:
        return None
    below, above = baseline_rate, 1.0
    for _ in range(_BISECTIONS):
        middle = (below + above) / 2.0
        if _power(middle, baseline_rate, images, critical) < power:
            below = middle
        else:
            above = middle
    return above


def _critical(images: int, level: float) -> list[int]:
    """Return, for each number of the baseline's failures, the fewest of the description's that prove it."""
    least, found = 0, []
    for reference in range(images + 1):
        baseline = FailureCounts(reference, images)
        # More failures of the baseline never need fewer of the description's.
        while least <= images and above_baseline(FailureCounts(least, images), baseline) > level:
            least += 1
        found.append(least)
    return found


def _power(rate: float, baseline_rate: float, images: int, critical: list[int]) -> float:
    chances = scipy.stats.binom.pmf(np.arange(images + 1), images, baseline_rate)
    proven = scipy.stats.binom.sf(np.array(critical) - 1, images, rate)
    return float(np.sum(chances * proven))


def _score_end(described: FailureCounts, baseline: FailureCounts, side: int) -> float:
    """Bisect for the ratio, on one side of the observed one, that the score test just rejects."""
    # Half a failure stands for none: only the place where the search begins depends on it.
    rates = [max(each.failures, 0.5) / each.images for each in (described, baseline)]
    inside, outside = math.log(rates[0] / rates[1]), side * _WIDEST
    if baseline.failures == 0:
        inside = _WIDEST
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2.0
        if _score(math.exp(middle), described, baseline) > _chi_squared():
            outside = middle
        else:
            inside = middle
    return math.exp(outside)


@cache
def _chi_squared() -> float:
    # Not a constant: the gateway would load scipy's special functions when it starts.
    return float(scipy.special.chdtri(1, 1.0 - CONFIDENCE))


def _score(ratio: float, described: FailureCounts, baseline: FailureCounts) -> float:
    """Return the squared distance of both counts from what is likeliest under a ratio, in variances."""
    m, n, x, y = described.images, baseline.images, described.failures, baseline.failures
    middle = ratio * (m + y) + x + n
    root = math.sqrt(max(middle**2 - 4.0 * ratio * (m + n) * (x + y), 0.0))
    # Not (middle - root) / (2 (m + n)), which loses all digits where the ratio is large.
    rate = 2.0 * ratio * (x + y) / (middle + root)
    return _term(x, m, min(rate, 1.0)) + _term(y, n, min(rate / ratio, 1.0))


def _term(count: int, images: int, rate: float) -> float:
    variance = images * rate * (1.0 - rate)
    difference = (count - images * rate) ** 2
    return difference / variance if variance > 0.0 else (0.0 if difference < _NEGLIGIBLE else math.inf)
