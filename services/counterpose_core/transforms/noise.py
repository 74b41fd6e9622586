"""Noise of ImageNet-C (Hendrycks & Dietterich 2019): Gaussian, shot, impulse and speckle.

Grains are drawn at 224 pixels and enlarged, so that they stay as strong as published for a network that
reduces the image; single pixels of a larger image would average out.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from counterpose_core.transforms.arrays import Floats, Pixels, as_floats, grid, nearest, truncated


def gaussian_noise(pixels: Pixels, *, deviation: float, generator: np.random.Generator) -> Pixels:
    """Add normal noise of this standard deviation, a share of the full range."""
    return truncated(as_floats(pixels) + np.float32(deviation) * normal_grains(pixels, generator))


def speckle_noise(pixels: Pixels, *, deviation: float, generator: np.random.Generator) -> Pixels:
    """Multiply by one plus normal noise of this standard deviation."""
    return truncated(as_floats(pixels) * (1 + np.float32(deviation) * normal_grains(pixels, generator)))


def shot_noise(pixels: Pixels, *, photons: float, generator: np.random.Generator) -> Pixels:
    """Count photons, of which full white sends so many to a grain."""
    light = as_floats(reduced(pixels))
    noise = generator.poisson(light * photons) / photons - light
    return truncated(as_floats(pixels) + nearest(noise, pixels))


def impulse_noise(pixels: Pixels, *, share: float, generator: np.random.Generator) -> Pixels:
    """Set this share of all values to black or white, each with probability one half."""
    shape = (*grid(pixels), 3)
    struck = nearest(generator.random(shape) < share, pixels)
    salt = nearest(generator.random(shape) < 0.5, pixels)
    return np.where(struck, np.where(salt, 255, 0), pixels).astype(np.uint8)


def normal_grains(pixels: Pixels, generator: np.random.Generator) -> Floats:
    """Return standard normal noise in the form of the image."""
    return nearest(generator.standard_normal((*grid(pixels), 3), dtype=np.float32), pixels)


def reduced(pixels: Pixels) -> Pixels:
    """Return the image in the size at which grains are drawn."""
    height, width = grid(pixels)
    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.BOX))
