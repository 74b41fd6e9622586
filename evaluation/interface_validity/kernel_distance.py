"""How far two sets of images are apart in a feature space: the squared MMD of a cubic kernel (KID)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from counterpose_core.images.clip_metrics import unit
from counterpose_core.types import Estimate

_NORMAL = 1.959964
LEAST = 3
"""The jackknife leaves one image out, and the rest must still hold a pair."""

Vectors = NDArray[np.floating]


def kernel_distance(real: Vectors, made: Vectors) -> tuple[float, float]:
    """The unbiased squared MMD of features (n, d) and (m, d), and its standard error by the jackknife.

    The kernel is (1 + cos)^3: that of Binkowski et al. 2018 for features of length sqrt(d), which CLIP's
    are not. It may be below 0: its mean for equal distributions is 0.

    Raises:
        ValueError: there are fewer than three of either.
    """
    if min(len(real), len(made)) < LEAST:
        raise ValueError(f"{len(real)} and {len(made)} images are too few to compare")
    x, y = unit(real), unit(made)
    k_x, k_y, k_xy = (_kernel(*pair) for pair in ((x, x), (y, y), (x, y)))
    n, m = len(x), len(y)
    within_x, within_y = _off_diagonal(k_x), _off_diagonal(k_y)
    whole = within_x.sum() / (n * (n - 1)) + within_y.sum() / (m * (m - 1)) - 2.0 * k_xy.mean()
    # Leaving image i out takes its row and its column.
    left_x = (within_x.sum() - 2.0 * within_x.sum(axis=1)) / ((n - 1) * (n - 2))
    left_x = left_x + within_y.sum() / (m * (m - 1)) - 2.0 * (k_xy.sum() - k_xy.sum(axis=1)) / ((n - 1) * m)
    left_y = (within_y.sum() - 2.0 * within_y.sum(axis=1)) / ((m - 1) * (m - 2))
    left_y = left_y + within_x.sum() / (n * (n - 1)) - 2.0 * (k_xy.sum() - k_xy.sum(axis=0)) / (n * (m - 1))
    variance = _jackknifed(left_x) + _jackknifed(left_y)
    return float(whole), float(np.sqrt(variance))


def mean_distance(pairs: Iterable[tuple[Vectors, Vectors]]) -> Estimate:
    """The mean of the distances of several classes' (real, made) features; n counts images made."""
    given = list(pairs)
    if not given:
        return Estimate(estimate=None, low=None, high=None, n=0)
    found = [kernel_distance(real, made) for real, made in given]
    mean = float(np.mean([distance for distance, _ in found]))
    half = _NORMAL * float(np.sqrt(np.sum([error**2 for _, error in found]))) / len(found)
    return Estimate(estimate=mean, low=mean - half, high=mean + half, n=sum(len(made) for _, made in given))


def _kernel(first: Vectors, second: Vectors) -> NDArray[np.float64]:
    return np.asarray((1.0 + first @ second.T) ** 3, dtype=np.float64)


def _off_diagonal(square: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(square - np.diag(np.diag(square)))


def _jackknifed(left: NDArray[np.float64]) -> float:
    return float((len(left) - 1) / len(left) * np.sum((left - left.mean()) ** 2))
