"""Failure rates of two sets of images of several labels, compared label by label."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import scipy

from counterpose_core.types import Estimate

Counts = Mapping[str, tuple[int, int]]
"""Failures and images of each label."""

_NORMAL = 1.959963984540054


def shared(ours: Counts, theirs: Counts) -> list[str]:
    """Return the labels of which both sets have images."""
    return [label for label, (_, n) in ours.items() if n and theirs.get(label, (0, 0))[1]]


def standardised_rate(theirs: Counts, ours: Counts) -> Estimate:
    """Return the failure rate that ``theirs`` would have with the labels of ``ours``.

    The rate of each label weighs as many images as ``ours`` has of it. The interval is Wilson's with Kish's
    effective number of images, which is exact for one label; ``n`` counts the images that it comes from.
    """
    labels = shared(ours, theirs)
    if not labels:
        return Estimate(estimate=None, low=None, high=None, n=0)
    total = sum(ours[label][1] for label in labels)
    weights = {label: ours[label][1] / total for label in labels}
    rate = math.fsum(weights[label] * theirs[label][0] / theirs[label][1] for label in labels)
    effective = 1.0 / math.fsum(weights[label] ** 2 / theirs[label][1] for label in labels)
    low, high = _wilson(rate, effective)
    n = sum(theirs[label][1] for label in labels)
    return Estimate(estimate=rate, low=min(low, rate), high=max(high, rate), n=n)


def _wilson(rate: float, n: float) -> tuple[float, float]:
    weight = _NORMAL**2 / n
    middle = (rate + weight / 2.0) / (1.0 + weight)
    half = _NORMAL * math.sqrt((rate * (1.0 - rate) + weight / 4.0) / n) / (1.0 + weight)
    return max(0.0, middle - half), min(1.0, middle + half)


def stratified_p(ours: Counts, theirs: Counts) -> float:
    """Return the one-sided p of "of no label does ours fail more often than theirs", exactly.

    Given the failures of each label in both sets together, those in ours are hypergeometric; the p is that of
    their sum over labels (the exact form of Mantel and Haenszel's test). With one label it is Fisher's.
    """
    chances, seen = np.ones(1), 0
    for label in shared(ours, theirs):
        (failures, n), (others, m) = ours[label], theirs[label]
        possible = np.arange(n + 1)
        chances = np.convolve(chances, scipy.stats.hypergeom.pmf(possible, n + m, failures + others, n))
        seen += failures
    return float(min(1.0, chances[seen:].sum()))
