"""Figures of plain definitions: a slope by least squares, a mean over images, the variance of a rate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

_SAME = 1e-9
"""Values that differ less are one."""


def slopes(base: ArrayLike, shifted: ArrayLike) -> npt.NDArray[np.float64]:
    """Return least-squares slopes (...) of ``shifted`` on ``base``, both (..., models); NaN if all equal."""
    given = (np.asarray(values, dtype=np.float64) for values in (base, shifted))
    x, y = (values - values.mean(axis=-1, keepdims=True) for values in given)
    spread = np.sum(x * x, axis=-1)
    flat = np.max(np.abs(x), axis=-1) <= _SAME
    return np.asarray(np.where(flat, np.nan, np.sum(x * y, axis=-1) / np.where(flat, 1.0, spread)))


def mean_losses(sources: ArrayLike, losses: ArrayLike) -> tuple[float, int]:
    """Return the mean loss, each source image weighing 1, and the number of source images.

    Args:
        sources: the source image of each edit (n,), as numbers or names.
        losses: p(true class) of its control less that of the edit (n,), in [-1, 1]; NaN where it has none.
    """
    values = np.asarray(losses, dtype=np.float64)
    known = ~np.isnan(values)
    if not known.any():
        return 0.0, 0
    _, index = np.unique(np.asarray(sources)[known], return_inverse=True)
    means = np.bincount(index, weights=values[known]) / np.bincount(index)
    return float(means.mean()), len(means)


def variance_of(shares: Sequence[float], rates: Sequence[float], images: Sequence[int]) -> float:
    """Return the variance of `rare_rate` for known rates."""
    return math.fsum(
        share**2 * rate * (1.0 - rate) / number
        for share, rate, number in zip(shares, rates, images, strict=True)
    )
