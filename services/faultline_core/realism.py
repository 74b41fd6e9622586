"""How far pictures lie from real ones in a network's features: Fréchet and kernel distance, with floors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from faultline_core.errors import NumericalFailure
from faultline_core.statistics import CONFIDENCE, LEAST_SOURCES_FOR_BOOTSTRAP, Floats
from faultline_core.types import Estimate

PICTURES_PER_FEATURE = 5
"""A covariance (d, d) of fewer pictures than this times d is mostly noise, and so is its distance."""
LEAST_SOURCES = LEAST_SOURCES_FOR_BOOTSTRAP
BLOCK = 2000
"""Pictures of both sets in one block of the kernel distance: 1,000 of each, as its paper's subsets."""

Sources = tuple[Sequence[str], Sequence[str]]
"""The source of each real (n,) and of each generated picture (m,): those of one source are dependent."""

_Indices = NDArray[np.intp]

_LARGEST = 1e20
"""Features beyond it would overflow: the interval squares the kernel, which is of sixth order in them."""


@dataclass(frozen=True)
class Refused:
    """Why there is no figure: ``n`` units are there where ``least`` are needed."""

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


@dataclass(frozen=True)
class Realism:
    """Both distances of a generated set from the real one, each beside its floor, and whose features."""

    network: str
    frechet: FrechetDistance | Refused
    frechet_floor: FrechetDistance | Refused
    kernel: Estimate | Refused
    kernel_floor: Estimate | Refused


def measure_realism(
    real: ArrayLike,
    generated: ArrayLike,
    generator: np.random.Generator,
    *,
    network: str,
    sources: Sources | None = None,
) -> Realism:
    """Fréchet and kernel distance of ``generated`` (m, d) from ``real`` (n, d), features of ``network``.

    The floors are the same distances between two random halves of the real set, one picture a source.
    A finite sample lifts every Fréchet distance, that of halves the most, so a distance near its floor
    says nothing; the kernel distance is unbiased, its floor lies about 0.

    Raises:
        NumericalFailure: a feature is not finite.
    """
    first, second = halves(real, generator)
    return Realism(
        network=network,
        frechet=frechet_distance(real, generated),
        frechet_floor=frechet_distance(first, second),
        kernel=kernel_distance(real, generated, generator, sources=sources),
        kernel_floor=kernel_distance(first, second, generator),
    )


def halves(features: ArrayLike, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Split features (n, d) at random into two halves; of an odd n the first has one more."""
    values = _checked(features)
    first, second = np.array_split(values[generator.permutation(len(values))], 2)
    return first, second


def frechet_distance(real: ArrayLike, generated: ArrayLike) -> FrechetDistance | Refused:
    """|m1 - m2|² + tr(C1 + C2 - 2 (C1 C2)^½) of features (n, d) and (m, d) (Heusel et al. 2017, eq. 6).

    Refused below 5 x d pictures in either set. Biased upwards by an amount that falls with n, so only
    distances of equally large sets compare.

    Raises:
        NumericalFailure: a feature is not finite.
        ValueError: the features are no two matrices of one width.
    """
    first, second = _pair(real, generated)
    width, n = first.shape[1], min(len(first), len(second))
    least = PICTURES_PER_FEATURE * width
    if n < least:
        needs = f"{least} pictures in each set ({PICTURES_PER_FEATURE} x {width} features)"
        return Refused(f"the Fréchet distance needs {needs}, not {n}", n, least)
    shift = first.mean(axis=0) - second.mean(axis=0)
    root, other = _root_covariance(first), _root_covariance(second)
    # tr (C1 C2)^½ is the sum of singular values of C1^½ C2^½. As roots of the eigenvalues of
    # C1^½ C2 C1^½ they would hold half the digits only: small ones drown in the rounding of large ones.
    overlap = np.linalg.svd(root @ other, compute_uv=False).sum()
    squared = shift @ shift + np.sum(root**2) + np.sum(other**2) - 2.0 * overlap
    return FrechetDistance(max(float(squared), 0.0), len(first), len(second), width)


def _root_covariance(features: Floats) -> Floats:
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(features, rowvar=False)))
    # Rounding leaves eigenvalues of a singular covariance a little below 0.
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
    """Unbiased MMD² of features (n, d) and (m, d) under (x·y/d + 1)³ (Bińkowski et al. 2018, section 4).

    Every mean of the kernel leaves out pairs of one source, whose features are dependent, which keeps
    the figure unbiased where pictures were made from the real ones (Gretton et al. 2012, eq. 4). Without
    ``sources`` each picture is its own. The figure may be below 0, as an unbiased one of 0 must. Beyond
    ``block`` pictures ``generator`` deals the sources into blocks, whose figures are averaged. ``n``
    counts the sources of the set that has fewer; below 20 it is refused.

    The interval is Student's t on the jackknife over sources. In simulations of 20 and 60 sources it
    held the truth in 92-98 % where the sets differ and in 99 % where they do not, which is the safe side.

    Features of unit length should be scaled by √d first: else x·y/d is so small that the kernel is
    linear in effect, and sees means only.

    Raises:
        NumericalFailure: a feature is not finite.
        ValueError: the features are no two matrices of one width, or the sources do not fit them.
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
    reach = error * float(stats.t.ppf((1.0 + CONFIDENCE) / 2.0, n - 1))
    return Estimate(estimate=mean, low=mean - reach, high=mean + reach, n=n)


def _checked(values: ArrayLike) -> Floats:
    features = np.asarray(values, dtype=np.float64)
    if features.ndim != 2 or features.shape[1] == 0:
        raise ValueError(f"features are (n, d), not {features.shape}")
    if not np.all(np.abs(features) < _LARGEST):
        raise NumericalFailure("a feature of a picture is not finite")
    return features


def _pair(real: ArrayLike, generated: ArrayLike) -> tuple[Floats, Floats]:
    first, second = _checked(real), _checked(generated)
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"features of width {first.shape[1]} and {second.shape[1]} do not compare")
    return first, second


def _codes(sources: Sources | None, n: int, m: int) -> _Indices:
    if sources is None:
        return np.arange(n + m)
    if (len(sources[0]), len(sources[1])) != (n, m):
        raise ValueError(f"{len(sources[0])} and {len(sources[1])} sources for {n} and {m} pictures")
    return np.unique([*sources[0], *sources[1]], return_inverse=True)[1]


def _deal(codes: _Indices, side: _Indices, count: int, generator: np.random.Generator) -> list[_Indices]:
    """Deal sources into blocks of pictures, those of real, of generated and of both kinds each evenly."""
    has = np.zeros((codes.max() + 1, 2), dtype=np.intp)
    has[codes, side] = 1
    order = generator.permutation(len(has))
    order = order[np.argsort((has @ [1, 2])[order], kind="stable")]
    dealt = np.empty(len(has), dtype=np.intp)
    dealt[order] = np.arange(len(has)) % count
    return [np.flatnonzero(dealt[codes] == block) for block in range(count)]


def _of_block(features: Floats, codes: _Indices, side: _Indices, block: int) -> tuple[float, float]:
    """The squared discrepancy of a block and its jackknife variance over sources."""
    sums, counts = _by_source(features, np.unique(codes, return_inverse=True)[1], side, block)
    # A pair that loses a source may hold it first or second.
    rest = [table.sum(axis=0) - table - table.transpose(0, 2, 1) for table in (sums, counts)]
    without = _discrepancy(rest[0], rest[1])
    variance = np.sum((without - without.mean()) ** 2) * (1.0 - 1.0 / len(without))
    return float(_discrepancy(sums.sum(axis=0), counts.sum(axis=0))), float(variance)


def _discrepancy(sums: Floats, counts: Floats) -> Floats:
    means = sums / counts
    return np.asarray(means[..., 0, 0] + means[..., 1, 1] - means[..., 0, 1] - means[..., 1, 0])


def _by_source(features: Floats, codes: _Indices, side: _Indices, block: int) -> tuple[Floats, Floats]:
    """Sums of the kernel and numbers of pairs, (sources, 2, 2): source and side of one, side of the other."""
    sums, counts = np.zeros((2, codes.max() + 1, 2, 2))
    both = np.stack([side == 0, side == 1], axis=1).astype(np.float64)
    # Few pictures beside very many stay in one block, whose kernel may not fit in memory at once.
    for rows in np.array_split(np.arange(codes.size), -(-(codes.size**2) // block**2)):
        base = features[rows] @ features.T / features.shape[1] + 1.0
        kernel = base * base
        kernel *= base
        np.add.at(sums, (codes[rows], side[rows]), kernel @ both)
        np.add.at(counts, (codes[rows], side[rows]), both.sum(axis=0))
        # Taken away again: pairs of one source are few, and a mask would cost more than the kernel.
        first, second = np.nonzero(codes[rows, None] == codes[None, :])
        same = (codes[rows][first], side[rows][first], side[second])
        np.subtract.at(sums, same, kernel[first, second])
        np.subtract.at(counts, same, 1.0)
    return sums, counts
