"""Colour drift: the one gain, offset and turn of hue that an edit gave to all that it should have steady."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from counterpose_core.preservation.arrays import Floats, lab
from counterpose_core.transforms.arrays import Mask

ROUNDS = 3
NEAR = 12.0
"""Levels by which a pixel may miss the fit and still count for it: what changed otherwise does not."""
STEADY = 25.0
"""Variance, in squared levels, with which a gain of 1 is held: of one flat colour there is only an offset."""
LEAST_CHROMA = 4.0
"""Mean chroma, in CIELAB, below which a place is grey and has no hue."""


@dataclass(frozen=True)
class Drift:
    """A global change of colour, by channel red, green, blue: edited = ``gain`` · source + ``offset``.

    ``offset`` is in levels, -255 to 255; ``colour`` is the mean ΔE*ab that gain and offset make; ``hue`` how
    far hues turned, in degrees from -180 to 180, None of a grey place; ``share`` that of the pixels that
    follow the fit.
    """

    gain: tuple[float, float, float]
    offset: tuple[float, float, float]
    colour: float
    hue: float | None
    share: float


def drift(source: Floats, edited: Floats, colours: tuple[Floats, Floats], steady: Mask) -> Drift | None:
    """Fit what happened to all steady pixels; None if fewer than half of them are near one.

    The fit starts from an offset alone: of a gain of 0.7 it may find no majority, and the rest has leaked.

    Args:
        source: levels (H, W, 3), 0 to 255.
        edited: the same of the edited image, laid on the source.
        colours: both in CIELAB.
        steady: true (H, W) where nothing should change; at least one pixel.
    """
    first, second = source[steady].astype(np.float64), edited[steady].astype(np.float64)
    gain, offset = np.ones(3), np.median(second - first, axis=0)
    near: Mask = np.ones(len(first), dtype=np.bool_)
    for _ in range(ROUNDS):
        near = np.all(np.abs(gain * first + offset - second) <= NEAR, axis=1)
        if 2 * near.sum() < len(first):
            return None
        before, after = first[near], second[near]
        covariance = ((before - before.mean(axis=0)) * (after - after.mean(axis=0))).mean(axis=0)
        gain = (covariance + STEADY) / (before.var(axis=0) + STEADY)
        offset = after.mean(axis=0) - gain * before.mean(axis=0)
    was, now = (colour[steady][near] for colour in colours)
    fitted = lab((gain * first[near] + offset).astype(np.float32))
    away = float(np.linalg.norm(fitted - was, axis=1).mean())
    return Drift(_three(gain), _three(offset), away, _turn(was, now), float(near.mean()))


def _turn(was: Floats, now: Floats) -> float | None:
    first, second = (colour[:, 1].astype(np.float64) + 1j * colour[:, 2] for colour in (was, now))
    if min(np.abs(first).mean(), np.abs(second).mean()) < LEAST_CHROMA:
        return None
    return math.degrees(float(np.angle((first.conj() * second).sum())))


def _three(values: Floats) -> tuple[float, float, float]:
    red, green, blue = map(float, values)
    return red, green, blue
