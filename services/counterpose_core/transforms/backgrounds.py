"""Other backgrounds behind the object of a mask: plain, blurred, or another photograph.

The object is cut out with feathered edges: a network sees hard ones.
"""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageOps

from counterpose_core.transforms.arrays import Floats, Mask, Pixels, as_floats, as_pixels, scale, smoothed

LEAST_WEIGHT = 1e-3
"""Share of background around a pixel, below which its blurred background is no more than rounding."""


def plain(pixels: Pixels, *, share: float, grey: float, feather: float, mask: Mask) -> Pixels:
    """Mix the background with this share of one grey from 0 to 255."""
    ground = np.full(3, grey / 255, np.float32)
    return _replaced(as_floats(pixels), ground, share, feather, mask)


def coloured(
    pixels: Pixels, *, share: float, feather: float, mask: Mask, generator: np.random.Generator
) -> Pixels:
    """Mix the background with this share of one colour, drawn uniformly from all colours."""
    return _replaced(as_floats(pixels), generator.random(3, dtype=np.float32), share, feather, mask)


def photograph(pixels: Pixels, *, share: float, feather: float, mask: Mask, other: Pixels) -> Pixels:
    """Mix the background with this share of another photograph, scaled and cropped to cover the image."""
    size = pixels.shape[1], pixels.shape[0]
    ground = ImageOps.fit(Image.fromarray(other), size, Image.Resampling.LANCZOS)
    return _replaced(as_floats(pixels), as_floats(np.asarray(ground)), share, feather, mask)


def blurred(pixels: Pixels, *, sigma: float, feather: float, mask: Mask) -> Pixels:
    """Blur the background by a Gaussian; none of the object spreads into it."""
    image = as_floats(pixels)
    behind = (~mask)[..., None].astype(np.float32)
    weight = smoothed(behind, sigma * scale(pixels))
    total = smoothed(image * behind, sigma * scale(pixels))
    ground = np.where(weight > LEAST_WEIGHT, total / np.maximum(weight, LEAST_WEIGHT), image)
    return _replaced(image, ground, 1.0, feather, mask)


def _replaced(image: Floats, ground: Floats, share: float, feather: float, mask: Mask) -> Pixels:
    """Return the image before another ground, its edge a Gaussian of ``feather`` pixels at 224."""
    front = smoothed(mask.astype(np.float32), feather * scale(mask))[..., None]
    return as_pixels(image + (ground - image) * (1 - front) * np.float32(share))
