"""Patches of grey that hide a stated share of the image, or of the object."""

from __future__ import annotations

import math

import numpy as np

from counterpose_core.transforms.arrays import GREY, Mask, Pixels


def patch(pixels: Pixels, *, share: float, down: float, across: float) -> Pixels:
    """Hide a share of the image by a patch of its form, from the upper or left edge (0) to the other (1)."""
    height, width = pixels.shape[:2]
    tall, wide = (max(1, round(side * math.sqrt(share))) for side in (height, width))
    top, left = round((height - tall) * down), round((width - wide) * across)
    hidden = pixels.copy()
    hidden[top : top + tall, left : left + wide] = GREY
    return hidden


def random_patch(pixels: Pixels, *, share: float, generator: np.random.Generator) -> Pixels:
    """Hide a share of the image by a patch of its form at a random place within it."""
    down, across = generator.random(2)
    return patch(pixels, share=share, down=down, across=across)


def object_patch(pixels: Pixels, *, share: float, mask: Mask, generator: np.random.Generator) -> Pixels:
    """Hide a share of the object by a patch of its box's form, grown around a random pixel of it."""
    rows, columns = np.nonzero(mask)
    start = int(generator.integers(len(rows)))
    away = [np.abs(places - places[start]) / (np.ptp(places) + 1) for places in (rows, columns)]
    # The distance within which the share lies; ties add at most a line of pixels on each side.
    reach = np.sort(np.maximum(*away))[max(math.ceil(share * len(rows)), 1) - 1]
    hidden = pixels.copy()
    tall, wide = (int(reach * (np.ptp(places) + 1) + 1e-9) for places in (rows, columns))
    top, left = max(rows[start] - tall, 0), max(columns[start] - wide, 0)
    hidden[top : rows[start] + tall + 1, left : columns[start] + wide + 1] = GREY
    return hidden
