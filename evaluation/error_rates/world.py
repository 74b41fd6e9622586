"""Simulated stress tests: sources of different difficulty, edits and placebos that a gate drops unequally."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]
Noise = Literal["sym", "asym"]
"""``sym``: each image's noise is normal. ``asym``: it is rare and only harmful."""

EASE = 2.5
"""The log odds of the true class for a source of mean difficulty."""

_INVERSION, _DRAW = 0.5, 0.8
_RARE, _HARM = 0.08, 5.0
_ALIKE = 0.95
_KEPT, _KEPT_BY_DIFFICULTY = 1.0, 1.0


@dataclass(frozen=True)
class Sources:
    """p(true class) of n sources: the original, its placebo and k edits, NaN where an image was dropped.

    ``groups`` names the block of near-duplicates that each source belongs to.
    """

    original: Floats
    placebo: Floats
    edits: Floats
    groups: NDArray[np.int64]

    @property
    def kept(self) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
        """The kept edits (m,), with the source (m,) and the place (m,) of each."""
        rows, columns = np.nonzero(np.isfinite(self.edits))
        return self.edits[rows, columns], rows, columns

    @property
    def changes(self) -> tuple[Floats, NDArray[np.int64]]:
        """The mean change of p(true class) of each source with an edit (m,), and their groups (m,)."""
        there = np.isfinite(self.edits).any(axis=1)
        return np.nanmean(self.edits[there], axis=1) - self.original[there], self.groups[there]


def draw_sources(
    n: int,
    edits: int,
    generator: Generator,
    *,
    noise: Noise = "sym",
    harm: float = 0.0,
    hit: float = 1.0,
    block: int = 1,
    gated: bool = True,
    ease: float = EASE,
) -> Sources:
    """Draw sources with one placebo and some edits each.

    p(true class) is logistic in the difficulty of the source, the noise of its inversion, which all of its
    generated images share, and the noise of the image. It is stored in half precision, as in a run.

    Args:
        n: the number of sources.
        edits: the number of edits of each.
        generator: draws everything.
        noise: the noise of an image.
        harm: the log odds that an edit costs beyond a placebo.
        hit: the share of sources that it costs them.
        block: the number of near-duplicates in a group, which share difficulty and noise.
        gated: whether images of difficult sources are dropped more often.
        ease: the log odds of the true class for a source of mean difficulty.
    """
    groups = np.arange(n) // block
    difficulty = _shared(generator, groups, ())
    inversion = _INVERSION * _shared(generator, groups, ())
    odds = (ease - 1.5 * difficulty - inversion)[:, None] + _noise(generator, groups, edits + 1, noise)
    odds[:, 1:] -= harm * (_uniform(generator, groups) < hit)[:, None]
    passing = _KEPT - _KEPT_BY_DIFFICULTY * difficulty if gated else np.full(n, 2.0)
    kept = generator.random((n, edits + 1)) < special.expit(passing)[:, None]
    shown = np.where(kept, _stored(odds), np.nan)
    return Sources(_stored(ease - 1.5 * difficulty), shown[:, 0], shown[:, 1:], groups)


def mean_change(
    edits: int, generator: Generator, *, noise: Noise, harm: float = 0.0, hit: float = 1.0
) -> float:
    """Return the true mean change of p(true class) over kept sources, from many fresh ones."""
    many = draw_sources(400_000 // edits, edits, generator, noise=noise, harm=harm, hit=hit)
    return float(many.changes[0].mean())


def _shared(generator: Generator, groups: NDArray[np.int64], shape: tuple[int, ...]) -> Floats:
    """Standard normal numbers (n, ...) with a correlation of 0.95 within a group, if it has several."""
    n, count = groups.size, int(groups.max()) + 1
    alike = _ALIKE if count < n else 0.0
    common = generator.normal(size=(count, *shape))[groups]
    return np.asarray(np.sqrt(alike) * common + np.sqrt(1.0 - alike) * generator.normal(size=(n, *shape)))


def _uniform(generator: Generator, groups: NDArray[np.int64]) -> Floats:
    return np.asarray(special.ndtr(_shared(generator, groups, ())))


def _noise(generator: Generator, groups: NDArray[np.int64], images: int, noise: Noise) -> Floats:
    """The noise of each image (n, images); near-duplicates share that of the image at the same place."""
    drawn = _shared(generator, groups, (images,))
    if noise == "sym":
        return _DRAW * drawn
    return np.where(special.ndtr(drawn) < _RARE, -_HARM, 0.0)


def _stored(odds: Floats) -> Floats:
    return np.asarray(special.expit(odds), dtype=np.float16).astype(np.float64)
