"""Distances of images from real ones in a network's features: Fréchet distance and kernel distance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from counterpose_core.errors import NumericalFailure
from counterpose_core.statistics.bootstrap import CONFIDENCE, LEAST_SOURCES_FOR_BOOTSTRAP, Floats
from counterpose_core.types import Estimate

IMAGES_PER_FEATURE = 5
"""With fewer images than this times d, a covariance (d, d) is mostly noise, and so is the distance."""
GROUPS = 20
"""Parts of a jackknife: as many distances are computed."""
LEAST_SOURCES = LEAST_SOURCES_FOR_BOOTSTRAP
BLOCK = 2000
"""Images in one block of the kernel distance: 1,000 of each set, like the subsets of its paper."""

Sources = tuple[Sequence[str], Sequence[str]]
"""The sources of the real (n,) and the generated images (m,); images of one source are dependent."""

_Indices = NDArray[np.intp]

_LARGEST = 1e20
"""Larger features would overflow: the interval squares the kernel, which is of sixth order in them."""


@dataclass(frozen=True)
class Refused:
    """Why there is no estimate: there are ``n`` units, but ``least`` are needed."""

    reason: str
    n: int
    least: int


@dataclass(frozen=True)
class FrechetDistance:
    """Squared distance (>= 0, units of features squared) between Gaussians fitted to two sets."""

    distance: float
    n_real: int
    n_generated: int
    width: int


def halves(features: ArrayLike, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Split features (n, d) at random into two halves; if n is odd the first has one more."""
    values = _checked(features)
    first, second = np.array_split(values[generator.permutation(len(values))], 2)
    return first, second


def frechet_distance(real: ArrayLike, generated: ArrayLike) -> FrechetDistance | Refused:
    """Return |m1 - m2|² + tr(C1 + C2 - 2 (C1 C2)^½) of two sets of features (Heusel et al. 2017, eq. 6).

    The result is `Refused` if either set has fewer than 5 x d images. The distance is biased upwards by an
    amount that falls with n, so only distances of equally large sets are comparable.

    Args:
        real: features of real images (n, d).
        generated: features of generated images (m, d).

    Raises:
        NumericalFailure: a feature is not finite.
        ValueError: the features are not two matrices of the same width.
    """
    first, second = _pair(real, generated)
    width, n = first.shape[1], min(len(first), len(second))
    least = IMAGES_PER_FEATURE * width
    if n < least:
        needs = f"{least} images in each set ({IMAGES_PER_FEATURE} x {width} features)"
        return Refused(f"the Fréchet distance needs {needs}, not {n}", n, least)
    return FrechetDistance(_squared_distance(first, second), len(first), len(second), width)


def frechet_corrected(
    real: ArrayLike, generated: ArrayLike, generator: np.random.Generator, *, groups: int = GROUPS
) -> Estimate | Refused:
    """Return the Fréchet distance without most of its bias, with an interval, by a jackknife over groups.

    The distance is too large by about c / n (Chong and Forsyth 2020). The jackknife takes this term away: its
    estimate is the mean of pseudo-values, each from the distance without one group of both sets, and may be
    below 0. The interval is Student's t over the pseudo-values; ``n`` counts images of the smaller set. For
    normal features (d = 4, 40 to 400 images in each set) it contained the true value in 92-98 % of 300
    simulations, whether the sets differ or not.

    Args:
        real: features of real images (n, d), independent of each other.
        generated: features of generated images (m, d), independent of each other and of the real ones.
        generator: deals the images into groups.
        groups: the number of groups, at least 2.

    Raises:
        NumericalFailure: a feature is not finite.
        ValueError: the features are not two matrices of the same width.
    """
    first, second = _pair(real, generated)
    whole = frechet_distance(first, second)
    if isinstance(whole, Refused):
        return whole
    parts = [np.array_split(generator.permutation(len(each)), groups) for each in (first, second)]
    without = [
        _squared_distance(np.delete(first, one, axis=0), np.delete(second, other, axis=0))
        for one, other in zip(*parts, strict=True)
    ]
    pseudo = groups * whole.distance - (groups - 1) * np.array(without)
    mean, error = float(pseudo.mean()), float(pseudo.std(ddof=1)) / math.sqrt(groups)
    reach = error * float(scipy.stats.t.ppf((1.0 + CONFIDENCE) / 2.0, groups - 1))
    n = min(whole.n_real, whole.n_generated)
    return Estimate(estimate=mean, low=mean - reach, high=mean + reach, n=n)


def _squared_distance(first: Floats, second: Floats) -> float:
    shift = first.mean(axis=0) - second.mean(axis=0)
    root, other = _root_covariance(first), _root_covariance(second)
    # tr (C1 C2)^½ is the sum of singular values of C1^½ C2^½. Roots of the eigenvalues of C1^½ C2 C1^½ would
    # have only half the digits, because small ones are lost in the rounding of large ones.
    overlap = np.linalg.svd(root @ other, compute_uv=False).sum()
    squared = shift @ shift + np.sum(root**2) + np.sum(other**2) - 2.0 * overlap
    return max(float(squared), 0.0)


def _root_covariance(features: Floats) -> Floats:
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(features, rowvar=False)))
    # Rounding can make eigenvalues of a singular covariance slightly negative.
    root: Floats = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root


def kernel_distance(
    real: ArrayLike,
    generated: ArrayLike,
    generator: np.random.Generator,
    *,
    sources: Sources | None = None,
    block: int = BLOCK,
) -> Estimate | Refused:
    """Return the unbiased MMD² of two sets under the kernel (x·y/d + 1)³ (Bińkowski et al. 2018, section 4).

    Every mean of the kernel leaves out pairs of one source, whose features are dependent; this keeps the
    estimate unbiased if images were made from the real ones (Gretton et al. 2012, eq. 4). Such an estimate
    may be below 0. ``n`` counts the sources of the set that has fewer; below 20 the result is `Refused`.

    The interval is Student's t on the jackknife over sources. In simulations with 20 and 60 sources it
    contained the true value in 92-98 % if the sets differ and in 99 % if they do not, which is conservative.

    Scale features of unit length by √d first: otherwise x·y/d is so small that the kernel is almost linear
    and compares only means.

    Args:
        real: features of real images (n, d).
        generated: features of generated images (m, d).
        generator: deals the sources into blocks.
        sources: the source of each image of both sets; by default each image is its own source.
        block: the largest number of images in a block; the estimates of blocks are averaged.

    Raises:
        NumericalFailure: a feature is not finite.
        ValueError: the features are not two matrices of the same width, or the sources do not match them.
    """
    first, second = _pair(real, generated)
    features, side = np.concatenate([first, second]), np.repeat([0, 1], [len(first), len(second)])
    codes = _codes(sources, len(first), len(second))
    n = min(np.unique(codes[side == which]).size for which in (0, 1))
    if n < LEAST_SOURCES:
        reason = f"the kernel distance needs {LEAST_SOURCES} sources in each set, not {n}"
        return Refused(reason, n, LEAST_SOURCES)
    blocks = _deal(codes, side, max(1, min(-(-codes.size // block), n // LEAST_SOURCES)), generator)
    found = np.array([_of_block(features[dealt], codes[dealt], side[dealt], block) for dealt in blocks])
    mean = float(found[:, 0].mean())
    error = math.sqrt(found[:, 1].sum()) / len(blocks)
    reach = error * float(scipy.stats.t.ppf((1.0 + CONFIDENCE) / 2.0, n - 1))
    return Estimate(estimate=mean, low=mean - reach, high=mean + reach, n=n)


def _checked(values: ArrayLike) -> Floats:
    features = np.asarray(values, dtype=np.float64)
    if features.ndim != 2 or features.shape[1] == 0:
        raise ValueError(f"features must have the shape (n, d), not {features.shape}")
    if not np.all(np.abs(features) < _LARGEST):
        first = int(np.argmax(~(np.abs(features) < _LARGEST).all(axis=1)))
        raise NumericalFailure(
            f"the features of image {first} of {len(features)} are not finite or too large; check the encoder"
        )
    return features


def _pair(real: ArrayLike, generated: ArrayLike) -> tuple[Floats, Floats]:
    first, second = _checked(real), _checked(generated)
    if first.shape[1] != second.shape[1]:
        raise ValueError(
            f"features of width {first.shape[1]} and {second.shape[1]} are not comparable; use one encoder"
        )
    return first, second


def _codes(sources: Sources | None, n: int, m: int) -> _Indices:
    if sources is None:
        return np.arange(n + m)
    if (len(sources[0]), len(sources[1])) != (n, m):
        raise ValueError(
            f"{len(sources[0])} and {len(sources[1])} sources for {n} and {m} images; give one for each image"
        )
    return np.unique([*sources[0], *sources[1]], return_inverse=True)[1]


def _deal(codes: _Indices, side: _Indices, count: int, generator: np.random.Generator) -> list[_Indices]:
    """Deal sources into blocks, evenly for those with real, with generated and with both kinds of images."""
    has = np.zeros((codes.max() + 1, 2), dtype=np.intp)
    has[codes, side] = 1
    order = generator.permutation(len(has))
    order = order[np.argsort((has @ [1, 2])[order], kind="stable")]
    dealt = np.empty(len(has), dtype=np.intp)
    dealt[order] = np.arange(len(has)) % count
    return [np.flatnonzero(dealt[codes] == block) for block in range(count)]


def _of_block(features: Floats, codes: _Indices, side: _Indices, block: int) -> tuple[float, float]:
    """Return the squared discrepancy of a block and its jackknife variance over sources."""
    sums, counts = _by_source(features, np.unique(codes, return_inverse=True)[1], side, block)
    # A source may be the first or the second of a pair.
    rest = [table.sum(axis=0) - table - table.transpose(0, 2, 1) for table in (sums, counts)]
    without = _discrepancy(rest[0], rest[1])
    variance = np.sum((without - without.mean()) ** 2) * (1.0 - 1.0 / len(without))
    return float(_discrepancy(sums.sum(axis=0), counts.sum(axis=0))), float(variance)


def _discrepancy(sums: Floats, counts: Floats) -> Floats:
    means = sums / counts
    return np.asarray(means[..., 0, 0] + means[..., 1, 1] - means[..., 0, 1] - means[..., 1, 0])


def _by_source(features: Floats, codes: _Indices, side: _Indices, block: int) -> tuple[Floats, Floats]:
    """Return kernel sums and numbers of pairs (sources, 2, 2): source and side of one, side of the other."""
    sums, counts = np.zeros((2, codes.max() + 1, 2, 2))
    both = np.stack([side == 0, side == 1], axis=1).astype(np.float64)
    # A small set next to a very large one stays in one block, whose kernel may not fit in memory at once.
    for rows in np.array_split(np.arange(codes.size), -(-(codes.size**2) // block**2)):
        base = features[rows] @ features.T / features.shape[1] + 1.0
        kernel = base * base
        kernel *= base
        np.add.at(sums, (codes[rows], side[rows]), kernel @ both)
        np.add.at(counts, (codes[rows], side[rows]), both.sum(axis=0))
        # Subtracted again, because pairs of one source are few and a mask would cost more than the kernel.
        first, second = np.nonzero(codes[rows, None] == codes[None, :])
        same = (codes[rows][first], side[rows][first], side[second])
        np.subtract.at(sums, same, kernel[first, second])
        np.subtract.at(counts, same, 1.0)
    return sums, counts
