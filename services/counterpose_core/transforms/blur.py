"""Blur of ImageNet-C (Hendrycks & Dietterich 2019): Gaussian, defocus, glass, motion and zoom."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy
from PIL import Image

from counterpose_core.transforms.arrays import (
    Floats,
    Pixels,
    as_floats,
    convolved,
    grid,
    nearest,
    places,
    scale,
    smoothed,
    truncated,
)

LEAST_REACH = 8
"""Half the side of a disc's array: with room around small discs, their soft edge is not cut off."""
STEEPEST = 45.0
"""Degrees between motion and the horizontal, at most."""


def gaussian_blur(pixels: Pixels, *, sigma: float) -> Pixels:
    """Blur by a Gaussian."""
    return truncated(smoothed(as_floats(pixels), sigma * scale(pixels)))


def defocus_blur(pixels: Pixels, *, radius: float, edge: float) -> Pixels:
    """Blur by a disc whose rim a Gaussian of standard deviation ``edge`` softens."""
    wide = radius * scale(pixels)
    reach = max(LEAST_REACH, math.ceil(wide))
    away = np.arange(-reach, reach + 1)
    disc = (away[:, None] ** 2 + away**2 <= wide**2).astype(np.float32)
    # As published, the disc sums up to one before its rim is softened: large ones then brighten by 1 %.
    disc /= disc.sum()
    rim = np.arange(-2, 3) if radius > LEAST_REACH else np.arange(-1, 2)
    weights = np.exp(-0.5 * (rim / edge) ** 2)
    for axis in (0, 1):
        disc = scipy.ndimage.correlate1d(disc, weights / weights.sum(), axis=axis, mode="mirror")
    return truncated(convolved(as_floats(pixels), disc, "reflect"))


def motion_blur(pixels: Pixels, *, radius: float, sigma: float, generator: np.random.Generator) -> Pixels:
    """Blur along a line at a random angle."""
    line = motion(radius * scale(pixels), sigma * scale(pixels), generator.uniform(-STEEPEST, STEEPEST))
    return truncated(convolved(as_floats(pixels), line))


def motion(radius: float, sigma: float, degrees: float) -> Floats:
    """Return a kernel that drags an image to one side: half a Gaussian over 2 radius + 1 pixels."""
    steps = np.arange(round(2 * radius) + 1)
    angle = math.radians(degrees)
    down = -np.ceil(steps * math.sin(angle) - 0.5).astype(int)
    across = -np.ceil(steps * math.cos(angle) - 0.5).astype(int)
    reach = len(steps)
    kernel = np.zeros((2 * reach + 1, 2 * reach + 1), np.float32)
    np.add.at(kernel, (reach + down, reach + across), np.exp(-0.5 * (steps / sigma) ** 2))
    rows, columns = np.abs(down).max(), np.abs(across).max()
    kernel = kernel[reach - rows : reach + rows + 1, reach - columns : reach + columns + 1]
    kernel /= kernel.sum()
    return kernel


def zoom_blur(pixels: Pixels, *, largest: float, step: float) -> Pixels:
    """Average the image with itself enlarged about its middle by 1, 1 + step, ... up to ``largest``."""
    height, width = pixels.shape[:2]
    image = Image.fromarray(pixels)
    zooms = 1 + step * np.arange(round((largest - 1) / step) + 1)
    total = pixels.astype(np.float32)
    for zoom in zooms:
        # Pillow counts from the corner of the first pixel, not from its middle.
        (left, across), (top, down) = (enlargement(side, zoom) for side in (width, height))
        factors = (across, 0.0, left + 0.5 - across / 2, 0.0, down, top + 0.5 - down / 2)
        layer = image.transform(image.size, Image.Transform.AFFINE, factors, Image.Resampling.BILINEAR)
        total += np.asarray(layer)
    return truncated(total / np.float32(255 * (len(zooms) + 1)))


def enlargement(side: int, zoom: float) -> tuple[float, float]:
    """Return where the first of a side's pixels lies before an enlargement about the middle, and the step."""
    # As published: a piece of whole pixels is cut out of the middle, and enlarged so that its outermost
    # pixels stay outermost; what is too large is trimmed.
    piece = math.ceil(side / zoom)
    length = round(piece * zoom)
    step = (piece - 1) / max(length - 1, 1)
    return (side - piece) // 2 + (length - side) // 2 * step, step


def glass_blur(
    pixels: Pixels, *, sigma: float, reach: float, rounds: float, generator: np.random.Generator
) -> Pixels:
    """Blur, move each pixel's neighbours at random within ``reach`` onto it, ``rounds`` times, and blur."""
    wide = sigma * scale(pixels)
    image = truncated(smoothed(as_floats(pixels), wide))
    shape = grid(pixels)
    at = np.arange(shape[0] * shape[1])
    for _ in range(int(rounds)):
        at = at[_shuffle(shape, int(reach), generator)]
    # Displacements on the grid of 224 pixels become displacements of the image's own pixels.
    down, across = (
        nearest((moved - still).reshape(shape), pixels) * scale(pixels)
        for moved, still in zip(np.divmod(at, shape[1]), np.divmod(np.arange(at.size), shape[1]), strict=True)
    )
    rows, columns = places(pixels)
    rows = np.clip(np.rint(rows + down), 0, pixels.shape[0] - 1).astype(np.intp)
    columns = np.clip(np.rint(columns + across), 0, pixels.shape[1] - 1).astype(np.intp)
    return truncated(smoothed(as_floats(image[rows, columns]), wide))


def _shuffle(shape: tuple[int, int], reach: int, generator: np.random.Generator) -> npt.NDArray[np.intp]:
    """Return from which pixel each takes its value, if they do so one after the other from the last one on.

    A pixel that takes a value from one that is already done takes what that one took.
    """
    height, width = shape
    own = np.arange(height * width).reshape(shape)
    inner = np.s_[reach + 1 : height - reach + 1, reach + 1 : width - reach + 1]
    down, across = generator.integers(-reach, reach, (2, *own[inner].shape))
    taken = own.copy()
    taken[inner] += down * width + across
    chain = taken.ravel()
    last = chain > own.ravel()
    # Each round follows twice as many links, so a chain through all pixels ends after log2 of their number.
    step = np.where(last, chain, own.ravel())
    for _ in range(int(own.size).bit_length()):
        onward = step[step]
        if np.array_equal(onward, step):
            break
        step = onward
    return chain[step]
