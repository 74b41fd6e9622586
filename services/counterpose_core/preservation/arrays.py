"""Images as they are compared: levels as floats, at most `WORKING_SIDE` long, and their colours in CIELAB."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy
from PIL import Image

from counterpose_core.transforms.arrays import Mask, Matte, Pixels

Floats = npt.NDArray[np.floating[Any]]
"""(H, W) or (H, W, 3)."""

WORKING_SIDE = 256
"""The longest side on which images are compared: a change of a hundredth of a side has still 2 pixels."""
_INSIDE = 128

# sRGB (IEC 61966-2-1) to XYZ, divided by the white D65: white becomes (1, 1, 1).
_LINEAR = np.array(
    [
        level / 12.92 if level <= 0.04045 else ((level + 0.055) / 1.055) ** 2.4
        for level in np.arange(256) / 255
    ],
    dtype=np.float32,
)
_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
_TO_XYZ = (_XYZ / _XYZ.sum(axis=1, keepdims=True)).T.astype(np.float32)
_TO_LAB = np.array([[0, 500, 0], [116, -500, 200], [0, 0, -200]], dtype=np.float32)
_CUT = (6 / 29) ** 3


def reduced(image: Pixels | Floats, size: tuple[int, int]) -> Floats:
    """Return an image (H, W) or (H, W, 3) in another size (height, width), as float32 in its own units."""
    if image.shape[:2] == size:
        return image.astype(np.float32)
    height, width = size
    if image.dtype == np.uint8:
        shrunk = Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR, reducing_gap=3.0)
        return np.asarray(shrunk, dtype=np.float32)
    planes = [image] if image.ndim == 2 else list(np.moveaxis(image, -1, 0))
    shrunk_planes = [
        np.asarray(
            Image.fromarray(np.ascontiguousarray(plane, dtype=np.float32)).resize(
                (width, height), Image.Resampling.BILINEAR
            )
        )
        for plane in planes
    ]
    return shrunk_planes[0] if image.ndim == 2 else np.stack(shrunk_planes, axis=-1)


def size_within(shape: tuple[int, ...], side: int) -> tuple[int, int]:
    """Return height and width of the same form, whose longest is ``side`` or, if it is smaller, its own."""
    height, width = shape[:2]
    share = min(1.0, side / max(height, width))
    return max(1, round(height * share)), max(1, round(width * share))


def region_within(region: Mask | Matte, size: tuple[int, int]) -> Mask:
    """Return a region in another size (height, width): every pixel that it touches there."""
    levels = region.astype(np.float32) if region.dtype == np.bool_ else (region >= _INSIDE).astype(np.float32)
    return np.asarray(reduced(levels, size) > 1e-3)


def grown(region: Mask, pixels: float) -> Mask:
    """Return a region with all that is within this many pixels of it."""
    if not region.any():
        return region
    return np.asarray(scipy.ndimage.distance_transform_edt(~region) <= pixels)


def luminance(image: Floats) -> Floats:
    """Return the brightness (H, W) of levels (H, W, 3), by the weights of ITU-R 601."""
    weights = np.array([0.299, 0.587, 0.114], dtype=np.float32)
    return np.asarray(image @ weights)


def lab(image: Floats) -> Floats:
    """Return CIELAB (H, W, 3) of sRGB levels (H, W, 3) from 0 to 255, with white D65 (CIE 15:2004, 8.2.1)."""
    place = np.clip(image, 0, 255)
    below = place.astype(np.uint8)
    upper = _LINEAR[np.minimum(below.astype(np.intp) + 1, 255)]
    linear = _LINEAR[below] + (upper - _LINEAR[below]) * (place - below)
    ratio = linear @ _TO_XYZ
    root = np.where(ratio > _CUT, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.asarray(root @ _TO_LAB - np.array([16, 0, 0], dtype=np.float32), dtype=np.float32)
