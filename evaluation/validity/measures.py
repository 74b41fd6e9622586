"""Figures that compare two lists of drops, with intervals from resampling whole clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from counterpose_core.statistics.bootstrap import bootstrap_ratio, proportion
from counterpose_core.types import Estimate

Floats = NDArray[np.float64]
Statistic = Callable[[NDArray[np.intp]], float | None]
"""A figure of the rows with these indices; None where they do not determine it."""

DRAWS = 2000
_TAILS = (0.025, 0.975)
_LEAST_SHARE = 0.5

UNKNOWN = Estimate(estimate=None, low=None, high=None, n=0)


def share(hits: Sequence[bool]) -> Estimate:
    """A proportion of independent trials."""
    return proportion(sum(hits), len(hits))


def clustered_share(pairs: Iterable[tuple[str, bool]], generator: np.random.Generator) -> Estimate:
    """A share of trials, each (cluster, hit); clusters are resampled, as trials of one cluster may agree."""
    counts: dict[str, tuple[int, int]] = {}
    for cluster, hit in pairs:
        hits, n = counts.get(cluster, (0, 0))
        counts[cluster] = (hits + hit, n + 1)
    return bootstrap_ratio(counts, generator)


def spearman(first: Floats, second: Floats) -> float | None:
    """Rank correlation; None below three pairs or where one side is constant."""
    if len(first) < 3 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    ranks = stats.rankdata(first), stats.rankdata(second)
    return float(np.corrcoef(*ranks)[0, 1])


def slope(predicted: Floats, true: Floats) -> float | None:
    """Least-squares slope of truth on prediction: 1 is calibrated; below 1, predictions spread too widely."""
    if len(predicted) < 3 or np.ptp(predicted) == 0:
        return None
    return float(np.polyfit(predicted, true, 1)[0])


def resampled(
    statistic: Statistic, clusters: Sequence[str], generator: np.random.Generator, *, draws: int = DRAWS
) -> Estimate:
    """A statistic of all rows with a percentile interval over clusters drawn with replacement; n counts rows.

    Rows of one cluster are drawn together. Where the statistic is undetermined in most draws, it is
    reported as unknown.
    """
    whole = statistic(np.arange(len(clusters)))
    if whole is None:
        return Estimate(estimate=None, low=None, high=None, n=len(clusters))
    rows = [np.flatnonzero(np.array(clusters) == name) for name in dict.fromkeys(clusters)]
    found = [
        value
        for chosen in generator.integers(len(rows), size=(draws, len(rows)))
        if (value := statistic(np.concatenate([rows[index] for index in chosen]))) is not None
    ]
    if len(found) < _LEAST_SHARE * draws:
        return Estimate(estimate=None, low=None, high=None, n=len(clusters))
    low, high = (float(end) for end in np.quantile(found, _TAILS))
    return Estimate(estimate=whole, low=min(low, whole), high=max(high, whole), n=len(clusters))


def split_half(rows: Sequence[Floats], generator: np.random.Generator, *, splits: int = 200) -> Estimate:
    """Reliability of cell means: Spearman between means of random halves, stepped up to full length.

    ``rows`` holds each cell's values by source; the step is Spearman and Brown's 2r / (1 + r). The
    interval covers 95 % of the splits; n counts cells.
    """
    found: list[float] = []
    for _ in range(splits):
        halves = [_halves(row, generator) for row in rows if len(row) > 1]
        left, right = (np.array([pair[side] for pair in halves]) for side in (0, 1))
        value = spearman(left, right)
        if value is not None and value > -1.0:
            found.append(2 * value / (1 + value))
    if not found:
        return UNKNOWN
    low, high = (float(end) for end in np.quantile(found, _TAILS))
    return Estimate(estimate=float(np.mean(found)), low=low, high=high, n=len(rows))


def _halves(row: Floats, generator: np.random.Generator) -> tuple[float, float]:
    order = generator.permutation(len(row))
    middle = len(row) // 2
    return float(row[order[:middle]].mean()), float(row[order[middle:]].mean())
