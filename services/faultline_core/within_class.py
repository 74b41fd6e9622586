"""Means over classes, with pictures resampled within each class, jointly for all models and conditions.

The classes and models are the ones asked about; what chance decides is which pictures were generated. A draw
takes as many seeds of a class as it has, with replacement, and a seed's base and shifted pictures and all
models' answers to them stand or fall together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faultline_core.resampled import Resampled, Singles
from faultline_core.shift_filter import Flags
from faultline_core.statistics import DRAWS, Floats

_BLOCK = 4_000_000
"""Seeds drawn, or answers weighted, at once."""


@dataclass(frozen=True)
class Comparison:
    """Base and shifted means (shifts, models), their difference, and that averaged over models (shifts,)."""

    base: Resampled
    shifted: Resampled
    drop: Resampled
    impact: Resampled


def compare(
    base: NDArray[np.generic],
    base_kept: Flags,
    shifted: NDArray[np.generic],
    shifted_kept: Flags,
    counted: Flags,
    generator: np.random.Generator,
    *,
    draws: int = DRAWS,
) -> Comparison:
    """Hold means over classes of ``base`` against those of ``shifted`` over the same classes.

    Args:
        base: values (classes, pictures, models), each picture the pair of that in the same place below.
        base_kept: which pictures count (classes, pictures).
        shifted: values (shifts, classes, pictures, models).
        shifted_kept: which pictures count (shifts, classes, pictures).
        counted: which classes each shift's means are over (shifts, classes); each has pictures in both.
        generator: draws the seeds.
        draws: how often.
    """
    shifts, models = len(shifted), base.shape[-1]
    weights = counted / np.maximum(counted.sum(axis=1, keepdims=True), 1)
    sums = [_Sum(draws, shifts, models) for _ in range(3)]
    impact = _Sum(draws, shifts)
    for block in _blocks(counted, base.shape[1] * max(shifts * models, draws)):
        before = _parts(base[None, block], base_kept[None, block], weights[:, block])
        after = _parts(shifted[:, block], shifted_kept[:, block], weights[:, block])
        seeds = _seeds(generator, draws, len(block), base.shape[1])
        first, second = before.drawn(seeds), after.drawn(seeds)
        difference, drawn = before.less(after), first - second
        for total, parts, of_them in zip(
            sums, (before, after, difference), (first, second, drawn), strict=True
        ):
            total.add(parts, of_them)
        impact.add(_Parts(difference.mean.mean(axis=1), difference.parts.mean(axis=2)), drawn.mean(axis=2))
    return Comparison(*(total.resampled() for total in (*sums, impact)))


def _blocks(counted: Flags, cost: int) -> Iterator[NDArray[np.intp]]:
    """Indices of the classes that count anywhere, so many at once as memory should hold."""
    classes = np.flatnonzero(counted.any(axis=0))
    size = max(1, _BLOCK // max(1, cost))
    for start in range(0, len(classes), size):
        yield classes[start : start + size]


def _seeds(generator: np.random.Generator, draws: int, classes: int, n: int) -> Singles:
    """How often each seed of each class is drawn (draws, classes * n), n a class."""
    drawn = generator.integers(n, size=(draws * classes, n))
    drawn += n * np.arange(draws * classes)[:, None]
    times = np.bincount(drawn.ravel(), minlength=draws * classes * n)
    return times.reshape(draws, classes * n).astype(np.float32)


@dataclass(frozen=True)
class _Parts:
    """What a block of classes adds to means (...), and what each seed adds to deviations (seeds, ...)."""

    mean: Floats
    parts: Singles

    def drawn(self, seeds: Singles) -> Singles:
        """What the block adds in each draw (draws, ...), beyond its mean."""
        flat = seeds @ self.parts.reshape(len(self.parts), -1)
        return flat.reshape(len(seeds), *self.mean.shape)

    def less(self, other: _Parts) -> _Parts:
        return _Parts(self.mean - other.mean, self.parts - other.parts)


def _parts(values: NDArray[np.generic], kept: Flags, weights: Floats) -> _Parts:
    """Weighted means over a block's classes, and each picture's part in them.

    values (shifts or 1, classes, pictures, models), kept (shifts or 1, classes, pictures), weights (shifts,
    classes). A part is the picture's deviation from its class's mean, over the number of pictures n and
    times sqrt(n / (n - 1)): resampling n pictures sees too small a variance by that, 20 % at n = 5.
    """
    numbers = np.where(kept[..., None], values, 0).astype(np.float32)
    n = kept.sum(axis=2)[..., None]
    means = numbers.sum(axis=2, dtype=np.float64) / np.maximum(n, 1)
    scale = kept / np.sqrt(np.maximum(n, 1) * np.maximum(n - 1, 1))
    deviations = (numbers - means[:, :, None].astype(np.float32)) * scale[..., None].astype(np.float32)
    parts = deviations * weights[:, :, None, None].astype(np.float32)
    shifts, classes, pictures, models = parts.shape
    return _Parts(
        mean=np.asarray((means * weights[..., None]).sum(axis=1)),
        parts=np.moveaxis(parts, 0, 2).reshape(classes * pictures, shifts, models),
    )


class _Sum:
    """Adds up the parts of all blocks; classes are independent, and so moments add up too."""

    def __init__(self, draws: int, *shape: int) -> None:
        self._mean, self._second, self._third = (np.zeros(shape) for _ in range(3))
        self._draws = np.zeros((draws, *shape), dtype=np.float32)

    def add(self, block: _Parts, drawn: Singles) -> None:
        self._mean += block.mean
        # In double precision: a single picture of 50,000 adds little, and its cube next to nothing.
        parts = block.parts.astype(np.float64)
        squares = parts * parts
        self._second += squares.sum(axis=0)
        self._third += (squares * parts).sum(axis=0)
        self._draws += drawn

    def resampled(self) -> Resampled:
        return Resampled(self._mean, self._mean.astype(np.float32) + self._draws, self._second, self._third)
