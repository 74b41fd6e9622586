"""Other backgrounds behind the object of a mask: plain, blurred, mirrored, or another photograph's.

The object of an outline is cut out with feathered edges, for a network sees hard ones. A matte has its own.
"""

from __future__ import annotations

import numpy as np
import scipy
from PIL import Image, ImageOps

from counterpose_core.transforms.arrays import (
    Floats,
    Mask,
    Matte,
    Pixels,
    as_floats,
    as_pixels,
    grid,
    places,
    scale,
    smoothed,
)

LEAST_WEIGHT = 1e-3
"""Share of background around a pixel, below which its blurred background is no more than rounding."""

RIM = 3
"""Pixels around an object, at 224, that still have some of its colour."""

NEAR = 2.0
"""Standard deviation in pixels, at 224, of the mean that is taken for the old background behind an edge."""


def plain(pixels: Pixels, *, share: float, grey: float, feather: float, mask: Mask | Matte) -> Pixels:
    """Mix the background with this share of one grey from 0 to 255."""
    ground = np.full(3, grey / 255, np.float32)
    return _replaced(as_floats(pixels), ground, share, feather, mask)


def coloured(
    pixels: Pixels, *, share: float, feather: float, mask: Mask | Matte, generator: np.random.Generator
) -> Pixels:
    """Mix the background with this share of one colour, drawn uniformly from all colours."""
    return _replaced(as_floats(pixels), generator.random(3, dtype=np.float32), share, feather, mask)


def photograph(pixels: Pixels, *, share: float, feather: float, mask: Mask | Matte, other: Pixels) -> Pixels:
    """Mix the background with this share of another photograph, scaled and cropped to cover the image."""
    size = pixels.shape[1], pixels.shape[0]
    ground = ImageOps.fit(Image.fromarray(other), size, Image.Resampling.LANCZOS)
    return _replaced(as_floats(pixels), as_floats(np.asarray(ground)), share, feather, mask)


def blurred(pixels: Pixels, *, sigma: float, feather: float, mask: Mask | Matte) -> Pixels:
    """Blur the background by a Gaussian; none of the object spreads into it."""
    image = as_floats(pixels)
    behind = _clear(mask)[..., None].astype(np.float32)
    weight = smoothed(behind, sigma * scale(pixels))
    total = smoothed(image * behind, sigma * scale(pixels))
    ground = np.where(weight > LEAST_WEIGHT, total / np.maximum(weight, LEAST_WEIGHT), image)
    return _replaced(image, ground, 1.0, feather, mask)


def mirrored(pixels: Pixels, *, share: float, feather: float, mask: Mask | Matte) -> Pixels:
    """Mix the background with this share of itself, left and right swapped and the object's place filled."""
    ground = as_floats(emptied(pixels, mask)[:, ::-1])
    return _replaced(as_floats(pixels), ground, share, feather, mask)


def emptied(pixels: Pixels, mask: Mask | Matte) -> Pixels:
    """Return a photograph without its object: at its place is what lies around it, mirrored and smooth.

    Made at 224 pixels: what lies behind an object is invented anyway, and larger would take seconds.
    """
    size = pixels.shape[1], pixels.shape[0]
    clear = _clear(mask)
    small = np.asarray(Image.fromarray(pixels).resize(grid(pixels)[::-1], Image.Resampling.BOX))
    behind = Image.fromarray((~clear).astype(np.uint8) * 255).resize(grid(pixels)[::-1], Image.Resampling.BOX)
    hole = scipy.ndimage.binary_dilation(np.asarray(behind) > 0, iterations=RIM)
    if hole.all():
        # Hardly anything lies around it.
        small, hole = np.full_like(small, pixels[clear].mean(axis=0)), np.ones_like(hole)
    else:
        small = _mirrored_into(small, hole)
    filled = Image.fromarray(small).resize(size, Image.Resampling.BICUBIC)
    weight = Image.fromarray(hole.astype(np.float32)).resize(size, Image.Resampling.BILINEAR)
    share = np.maximum(np.asarray(weight), ~clear)[..., None].astype(np.float32)
    image = as_floats(pixels)
    return as_pixels(image + (as_floats(np.asarray(filled)) - image) * share)


def _mirrored_into(image: Pixels, hole: Mask) -> Pixels:
    """Fill each place of a hole with the one as far on the other side of its nearest edge, then smooth it."""
    nearest = scipy.ndimage.distance_transform_edt(hole, return_distances=False, return_indices=True)
    beyond = [
        np.clip(2 * edge - place, 0, side - 1).astype(np.intp)
        for edge, place, side in zip(nearest, places(image), image.shape[:2], strict=True)
    ]
    rows, columns = np.where(hole[beyond[0], beyond[1]], nearest, beyond)
    filled = image[rows, columns]
    smooth = as_pixels(smoothed(as_floats(filled), 1.0))
    return np.where(hole[..., None], smooth, image)


def _clear(mask: Mask | Matte) -> Mask:
    """Return where a mask has least of the object: nothing, but for objects that shine through everywhere."""
    clear: Mask = mask == mask.min()
    return clear


def _replaced(image: Floats, ground: Floats, share: float, feather: float, mask: Mask | Matte) -> Pixels:
    """Return the image before another ground; outlines get a Gaussian edge of ``feather`` pixels at 224."""
    if mask.dtype == np.uint8:
        matte = mask.astype(np.uint8)
        opacity = as_floats(matte)[..., None]
        # What is seen is the object's share and the old ground's: the latter is taken out.
        own = np.clip(image - (1 - opacity) * _behind(image, matte), 0, opacity)
        cut = own + (1 - opacity) * ground
    else:
        outline = mask.astype(np.bool_)
        front = smoothed(outline.astype(np.float32), feather * scale(mask))[..., None]
        cut = ground + (_without_rim(image, outline) - ground) * front
    return as_pixels(image + (cut - image) * np.float32(share))


def _behind(image: Floats, matte: Matte) -> Floats:
    """Return the old ground: of places before which the object is, the mean around the nearest clear one."""
    clear = _clear(matte)
    weight = smoothed(clear.astype(np.float32), NEAR * scale(matte))[..., None]
    total = smoothed(image * clear[..., None], NEAR * scale(matte))
    rows, columns = scipy.ndimage.distance_transform_edt(~clear, return_distances=False, return_indices=True)
    mean: Floats = (total / np.maximum(weight, LEAST_WEIGHT))[rows, columns]
    return mean


def _without_rim(image: Floats, mask: Mask) -> Floats:
    """Return the image with the object's colours at its edge, where the old background shines in."""
    width = max(1, round(scale(mask)))
    core = scipy.ndimage.binary_erosion(mask, iterations=width, border_value=1)
    if not core.any():
        return image
    far, nearest = scipy.ndimage.distance_transform_edt(~core, return_indices=True)
    # Thin parts have no core: they keep their own colours.
    at_edge = (far > 0) & (~mask | (far <= 2 * width))
    rows, columns = nearest
    return np.where(at_edge[..., None], image[rows, columns], image)
