"""What lies between scene and sensor: the lens, drops on it, shaking, hot air and haze."""

from __future__ import annotations

import math

import numpy as np

from counterpose_core.transforms.arrays import (
    Floats,
    Pixels,
    as_floats,
    as_pixels,
    enlarged,
    grid,
    places,
    sampled,
    scale,
    smoothed,
)

AIR = 0.9
"""Brightness of the haze itself: of a bright overcast sky."""
NEAREST = 0.4
"""Distance of the lowest row, as a share of the highest row's: the ground lies nearer than the horizon."""
EDDY = 8.0
"""Standard deviation in pixels of the smoothing of turbulent air's displacements."""
LENS = 3.0
"""By how much a drop shrinks what is seen through it, upside down."""
RIM = 0.75
"""How bright a drop's rim is, beside 1 in its middle."""


def radial_distortion(pixels: Pixels, *, bend: float) -> Pixels:
    """Read each pixel at 1 + bend * r**2 times its distance r from the middle; 1 is the corners' distance.

    A positive ``bend`` makes a barrel, a negative one a pincushion; beyond the border the image is reflected.
    """
    rows, columns = places(pixels)
    middle = (pixels.shape[0] - 1) / 2, (pixels.shape[1] - 1) / 2
    down, across = rows - middle[0], columns - middle[1]
    factor = bend * (down**2 + across**2) / math.hypot(*middle) ** 2
    return as_pixels(sampled(as_floats(pixels), rows + down * factor, columns + across * factor))


def jitter(pixels: Pixels, *, sigma: float) -> Pixels:
    """Blur by a camera that trembles, twice as far across as down: a Gaussian in each direction."""
    wide = sigma * scale(pixels)
    return as_pixels(smoothed(as_floats(pixels), wide / 2, wide))


def turbulence(pixels: Pixels, *, amplitude: float, sigma: float, generator: np.random.Generator) -> Pixels:
    """Displace pixels by a smooth random field of this standard deviation and blur, as hot air does."""
    shape = grid(pixels)
    fields = [smoothed(generator.standard_normal(shape, dtype=np.float32), EDDY) for _ in ("down", "across")]
    # Smoothing white noise divides its standard deviation by 2 sqrt(pi) times the Gaussian's.
    factor = amplitude * 2 * math.sqrt(math.pi) * EDDY * scale(pixels)
    down, across = (enlarged(field, pixels) * np.float32(factor) for field in fields)
    rows, columns = places(pixels)
    image = sampled(as_floats(pixels), rows + down, columns + across)
    return as_pixels(smoothed(image, sigma * scale(pixels)))


def haze(pixels: Pixels, *, density: float) -> Pixels:
    """Mix with the air's light, the more the farther: as if the rows rose to the horizon (Koschmieder)."""
    distance = np.linspace(1, NEAREST, len(pixels), dtype=np.float32)[:, None, None]
    clear = np.exp(-density * distance)
    return as_pixels(as_floats(pixels) * clear + AIR * (1 - clear))


def drops(pixels: Pixels, *, count: float, radius: float, generator: np.random.Generator) -> Pixels:
    """Put drops on the lens: small, upside-down, blurred views of what is around each, with a darker rim."""
    image = as_floats(pixels)
    rows, columns = places(pixels)
    shade = np.ones(rows.shape, np.float32)
    for _ in range(int(count)):
        middle = generator.uniform(0, 1, 2) * pixels.shape[:2]
        wide = radius * scale(pixels) * generator.uniform(0.5, 1.5)
        _put_drop(rows, columns, shade, middle, wide)
    wet = shade < 1
    soft = sampled(smoothed(image, scale(pixels)), rows, columns) * shade[..., None]
    return as_pixels(np.where(wet[..., None], soft, image))


def _put_drop(rows: Floats, columns: Floats, shade: Floats, middle: Floats, wide: float) -> None:
    first = np.maximum(np.floor(middle - wide), 0).astype(int)
    last = np.ceil(middle + wide).astype(int) + 1
    box = np.s_[first[0] : last[0], first[1] : last[1]]
    down, across = (
        np.arange(start, start + length, dtype=np.float32) - centre
        for start, length, centre in zip(first, rows[box].shape, middle, strict=True)
    )
    away = np.hypot(down[:, None], across) / wide
    inside = away < 1
    rows[box][inside] = np.broadcast_to(middle[0] - LENS * down[:, None], away.shape)[inside]
    columns[box][inside] = np.broadcast_to(middle[1] - LENS * across, away.shape)[inside]
    shade[box][inside] = (1 - (1 - RIM) * away**2)[inside] - 1e-6
