"""Drawn images: patches of colour of several sizes with fine noise, as photographs have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from counterpose_core.transforms.arrays import Mask, Pixels

Texture = Callable[..., Pixels]


def draw(height: int, width: int, seed: int = 0) -> Pixels:
    generator = np.random.default_rng(seed)
    total = 0.2 * generator.integers(0, 256, (height, width, 3))
    for cells in (2, 4, 8, 16):
        colours = generator.integers(0, 256, (cells, cells, 3), dtype=np.uint8)
        total += 0.2 * np.asarray(Image.fromarray(colours).resize((width, height), Image.Resampling.BICUBIC))
    return total.astype(np.uint8)


@pytest.fixture
def texture() -> Texture:
    """Return a function that draws an image of a height and width, by a seed."""
    return draw


@pytest.fixture
def middle() -> Callable[[Pixels], Mask]:
    """Return a function that makes a mask of an ellipse in the middle of an image."""

    def mask(pixels: Pixels) -> Mask:
        height, width = pixels.shape[:2]
        rows, columns = np.ogrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
        return np.asarray(rows**2 + columns**2 < 0.3)

    return mask
