"""Images with texture at every scale, and their movements by formula instead of by resampling."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from counterpose_core.transforms.arrays import Mask, Pixels

Places = npt.NDArray[np.floating[Any]]


def waves(seed: int, count: int = 60) -> Places:
    """Return random waves (count, 6): frequencies across and down, a phase, and weights of three channels."""
    generator = np.random.default_rng(seed)
    frequency = generator.uniform(0.5, 9.0, count) * 2 * np.pi
    turn = generator.uniform(0, 2 * np.pi, count)
    parts = [frequency * np.cos(turn), frequency * np.sin(turn), generator.uniform(0, 2 * np.pi, count)]
    return np.stack([*parts, *generator.normal(0, 1, (3, count)) * 90 / np.sqrt(frequency)], axis=1)


def textured(
    seed: int,
    size: tuple[int, int] = (96, 128),
    scale: tuple[float, float] = (1.0, 1.0),
    shift: tuple[float, float] = (0.0, 0.0),
) -> Pixels:
    """Return an image (H, W, 3) whose point u is at 0.5 + scale · (u - 0.5) + shift, across and down."""
    height, width = size
    u, v = (
        ((np.arange(side) + 0.5) / side - 0.5 - by) / times + 0.5
        for side, times, by in zip((width, height), scale, shift, strict=True)
    )
    across, down, phase, *channels = waves(seed).T
    angles = u[None, None, :] * across[:, None, None] + v[None, :, None] * down[:, None, None]
    tones = np.sin(angles + phase[:, None, None])
    image = 128 + np.einsum("cn,nhw->hwc", np.array(channels), tones) / 2
    levels: Pixels = np.rint(np.clip(image, 0, 255)).astype(np.uint8)
    return levels


def box(size: tuple[int, int], rows: slice, columns: slice) -> Mask:
    """Return a region (H, W) of these rows and columns."""
    region = np.zeros(size, dtype=np.bool_)
    region[rows, columns] = True
    return region
