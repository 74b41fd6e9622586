"""Resampling and relabelling of many sources at a cost that hardly grows with their number."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MANY = 2048
"""With more sources than this, intervals come from batches of sources."""

MANY_RELABELLED = 512
"""With more sources than this, p-values come from a saddle point."""

BATCHES = 1024
"""A spread told from so many batches is off by 2 %, as that of the 2,000 draws of a bootstrap is."""

_MOST_KINDS = 64
_DECIMALS = 12
_NEAR = 1e-15
"""The error of a saddle point, which is about 1 or less."""
_FLAT = 1e-4


def batched_means(table: Floats, generator: np.random.Generator, draws: int) -> Floats:
    """Return column means (draws, k) of random batches of the rows of a table (n, k), drawn with replacement.

    They have the variance and skewness of means of rows so drawn, at a fraction of the draws. Batches are
    dealt at random, because neighbours are often of one class.
    """
    n = len(table)
    dealt = np.column_stack([table, np.ones(n)])[generator.permutation(n)]
    sums = np.add.reduceat(dealt, np.arange(BATCHES) * n // BATCHES, axis=0)
    drawn = generator.integers(BATCHES, size=(draws, BATCHES), dtype=np.uint16)
    # By column: batches of unequal size are weighed by the last one, which counts their rows.
    totals = np.stack([column[drawn].sum(axis=1) for column in sums.T], axis=1)
    return np.asarray(totals[:, :-1] / totals[:, -1:])


def relabelling_p(tables: Sequence[Floats], generator: np.random.Generator, draws: int) -> float:
    """Return the one-sided p of "the sum over sources is not above 0", by relabelling; never 0.

    Sources with equal options are drawn together, as a multinomial count of each option. Where sources
    differ too much for that, the tail is that of the saddle point (Lugannani and Rice 1980; for permutation
    tests: Robinson 1982), whose relative error falls with n: with so many sources it is smaller than that
    of 20,000 draws.

    Args:
        tables: the value of each source under each labelling, the true one first: a table (sources, options)
            for each number of options.
        generator: draws the counts.
        draws: the number of random draws; no p is below 1 / (draws + 1).
    """
    n = sum(len(table) for table in tables)
    true = math.fsum(float(table[:, 0].sum()) for table in tables)
    kinds = [_kinds(table) for table in tables]
    if sum(len(rows) for rows, _ in kinds) <= _MOST_KINDS:
        sums = np.zeros(draws)
        for rows, counts in kinds:
            shares = np.full(rows.shape[1], 1.0 / rows.shape[1])
            for row, count in zip(rows, counts.tolist(), strict=True):
                sums += generator.multinomial(count, shares, size=draws) @ row
        return (int(np.sum(sums >= true - 1e-11 * n)) + 1) / (draws + 1)
    return max(_tail(tables, true), 1.0 / (draws + 1))


def _kinds(table: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """The distinct sets of options, and how many sources have each."""
    rounded = np.round(np.sort(table, axis=1), _DECIMALS)
    rows, counts = np.unique(rounded, axis=0, return_counts=True)
    return np.asarray(rows, dtype=np.float64), np.asarray(counts, dtype=np.intp)


def _tail(tables: Sequence[Floats], true: float) -> float:
    """The probability that a sum of independent draws, one of each row, reaches ``true``."""
    most = sum(float(table.max(axis=1).sum()) for table in tables)
    least = sum(float(table.min(axis=1).sum()) for table in tables)
    if true >= most or true <= least:
        return 0.0 if true >= most else 1.0
    point = _saddle_point(tables, true)
    value, _, spread = _cumulants(tables, point)
    root = math.copysign(math.sqrt(max(0.0, 2.0 * (point * true - value))), point)
    weighed = point * math.sqrt(spread)
    if abs(root) < _FLAT:
        third = sum(float(np.mean(table**3, axis=1).sum()) for table in tables)
        return float(0.5 - third / (6.0 * spread**1.5 * math.sqrt(2.0 * math.pi)))
    density = math.exp(-(root**2) / 2.0) / math.sqrt(2.0 * math.pi)
    return float(scipy.special.ndtr(-root)) + density * (1.0 / weighed - 1.0 / root)


def _saddle_point(tables: Sequence[Floats], true: float) -> float:
    """Where the derivative of the cumulant function, which grows from least to most, is ``true``."""

    def off(point: float) -> float:
        return _cumulants(tables, point)[1] - true

    side = 1.0 if off(0.0) < 0.0 else -1.0
    end = side
    while off(end) * side < 0.0:
        end *= 2.0
    return float(scipy.optimize.brentq(off, 0.0, end, xtol=_NEAR, rtol=_NEAR))


def _cumulants(tables: Sequence[Floats], point: float) -> tuple[float, float, float]:
    """The cumulant function of the sum at a point, and its first two derivatives."""
    value = first = second = 0.0
    for table in tables:
        tilted = point * table
        top = tilted.max(axis=1, keepdims=True)
        weights = np.exp(tilted - top)
        totals = weights.sum(axis=1, keepdims=True)
        value += float((top[:, 0] + np.log(totals[:, 0] / table.shape[1])).sum())
        weights /= totals
        means = (weights * table).sum(axis=1)
        first += float(means.sum())
        second += float(((weights * table**2).sum(axis=1) - means**2).sum())
    return value, first, second
