"""Stratified bootstrap: means over classes, with images resampled within each class.

Classes and models are fixed; only the generated images are random. A draw takes as many seeds of each class
as the class has, with replacement. The base and shifted images of a seed, and all models' answers to them,
are drawn together. Where images are not independent, such as frames of one video, their groups are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpose_core.statistics.bootstrap import DRAWS, Flags, Floats
from counterpose_core.statistics.bootstrap_result import BootstrapResult, Singles

Units = NDArray[np.intp]

_BLOCK = 4_000_000
"""The largest number of seeds drawn, or answers weighted, at once."""


@dataclass(frozen=True)
class Comparison:
    """Base and shifted means and their difference (shifts, models), and its mean over models (shifts,)."""

    base: BootstrapResult
    shifted: BootstrapResult
    drop: BootstrapResult
    impact: BootstrapResult


def stratified_bootstrap(
    base: NDArray[np.generic],
    base_kept: Flags,
    shifted: NDArray[np.generic],
    shifted_kept: Flags,
    counted: Flags,
    generator: np.random.Generator,
    *,
    units: Units | None = None,
    shifted_units: Units | None = None,
    draws: int = DRAWS,
) -> Comparison:
    """Compare the means over classes of ``base`` with those of ``shifted`` over the same classes.

    Args:
        base: values (classes, images, models); an image is paired with the shifted image at the same index.
        base_kept: which base images count (classes, images).
        shifted: values (shifts, classes, images, models).
        shifted_kept: which shifted images count (shifts, classes, images).
        counted: the classes to average over for each shift (shifts, classes); each needs kept images in both.
        generator: draws the seeds.
        units: the index along images at which each base image is drawn (classes, images), the same for images
            of a group; by default its own.
        shifted_units: the same for shifted images (shifts, classes, images); where it is that of a base
            image, both are drawn together.
        draws: the number of bootstrap draws.
    """
    shifts, models = len(shifted), base.shape[-1]
    weights = counted / np.maximum(counted.sum(axis=1, keepdims=True), 1)
    sums = [_Sum(draws, shifts, models) for _ in range(3)]
    impact = _Sum(draws, shifts)
    for block in _blocks(counted, base.shape[1] * max(shifts * models, draws)):
        own = None if units is None else units[None, block]
        before = _parts(base[None, block], base_kept[None, block], weights[:, block], own)
        own = None if shifted_units is None else shifted_units[:, block]
        after = _parts(shifted[:, block], shifted_kept[:, block], weights[:, block], own)
        seeds = _seeds(generator, draws, len(block), base.shape[1])
        first, second = before.drawn(seeds), after.drawn(seeds)
        difference, drawn = before.less(after), first - second
        for total, parts, of_them in zip(
            sums, (before, after, difference), (first, second, drawn), strict=True
        ):
            total.add(parts, of_them)
        impact.add(_Parts(difference.mean.mean(axis=1), difference.parts.mean(axis=2)), drawn.mean(axis=2))
    return Comparison(*(total.resampled() for total in (*sums, impact)))


def count_units(kept: Flags, units: Units | None) -> NDArray[np.intp]:
    """Return the number of units (...) among kept images (..., images): groups, and images without one."""
    return np.asarray((kept if units is None else _pooled(kept, units) > 0).sum(axis=-1))


def _pooled(values: NDArray[Any], units: Units) -> NDArray[Any]:
    """Return the sum of the values (..., images, rest) of each unit at the index of the unit."""
    units = np.broadcast_to(units, values.shape[: units.ndim])
    pooled = np.zeros(values.shape, dtype=np.intp if values.dtype == np.bool_ else values.dtype)
    np.add.at(pooled, (*np.indices(units.shape)[:-1], units), values)
    return pooled


def _blocks(counted: Flags, cost: int) -> Iterator[NDArray[np.intp]]:
    """Yield the indices of the classes that count under any shift, in blocks that fit in memory."""
    classes = np.flatnonzero(counted.any(axis=0))
    size = max(1, _BLOCK // max(1, cost))
    for start in range(0, len(classes), size):
        yield classes[start : start + size]


def _seeds(generator: np.random.Generator, draws: int, classes: int, n: int) -> Singles:
    """Return how often each of the n seeds of each class is drawn (draws, classes * n)."""
    drawn = generator.integers(n, size=(draws * classes, n))
    drawn += n * np.arange(draws * classes)[:, None]
    times = np.bincount(drawn.ravel(), minlength=draws * classes * n)
    return times.reshape(draws, classes * n).astype(np.float32)


@dataclass(frozen=True)
class _Parts:
    """The contribution of a block of classes to means (...), and of each seed to deviations (seeds, ...)."""

    mean: Floats
    parts: Singles

    def drawn(self, seeds: Singles) -> Singles:
        """Return the block's deviation from its mean in each draw (draws, ...)."""
        flat = seeds @ self.parts.reshape(len(self.parts), -1)
        return flat.reshape(len(seeds), *self.mean.shape)

    def less(self, other: _Parts) -> _Parts:
        return _Parts(self.mean - other.mean, self.parts - other.parts)


def _parts(values: NDArray[np.generic], kept: Flags, weights: Floats, units: Units | None) -> _Parts:
    """Return the weighted means over a block's classes and the contribution of each image to them.

    The contribution is the image's deviation from its class's mean, divided by the number of images n and
    multiplied by sqrt(u / (u - 1)) of u units: resampling n images underestimates the variance, by 20 % at
    n = 5. That of a group is at the index of its unit.

    Args:
        values: values (shifts or 1, classes, images, models).
        kept: which images count (shifts or 1, classes, images).
        weights: the weight of each class (shifts, classes).
        units: the index along images of each image's unit (shifts or 1, classes, images); None for its own.
    """
    numbers = np.where(kept[..., None], values, 0).astype(np.float32)
    n = kept.sum(axis=2)[..., None]
    means = numbers.sum(axis=2, dtype=np.float64) / np.maximum(n, 1)
    u = n if units is None else count_units(kept, units)[..., None]
    # Without groups u is n.
    divisor = np.sqrt(np.maximum(n, 1) * np.maximum(u - 1, 1))
    scale = kept / divisor * np.sqrt(np.maximum(u, 1) / np.maximum(n, 1))
    deviations = (numbers - means[:, :, None].astype(np.float32)) * scale[..., None].astype(np.float32)
    parts = deviations * weights[:, :, None, None].astype(np.float32)
    parts = parts if units is None else _pooled(parts, units)
    shifts, classes, images, models = parts.shape
    return _Parts(
        mean=np.asarray((means * weights[..., None]).sum(axis=1)),
        parts=np.moveaxis(parts, 0, 2).reshape(classes * images, shifts, models),
    )


class _Sum:
    """Adds up the parts of all blocks; classes are independent, so their moments add up too."""

    def __init__(self, draws: int, *shape: int) -> None:
        self._mean, self._second, self._third = (np.zeros(shape) for _ in range(3))
        self._draws = np.zeros((draws, *shape), dtype=np.float32)

    def add(self, block: _Parts, drawn: Singles) -> None:
        self._mean += block.mean
        # In double precision, because one image of 50,000 contributes little and its cube almost nothing.
        parts = block.parts.astype(np.float64)
        squares = parts * parts
        self._second += squares.sum(axis=0)
        self._third += (squares * parts).sum(axis=0)
        self._draws += drawn

    def resampled(self) -> BootstrapResult:
        return BootstrapResult(
            self._mean, self._mean.astype(np.float32) + self._draws, self._second, self._third
        )
