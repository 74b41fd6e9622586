"""Where things are in the image: rotation, flips, scale, crop, translation and perspective.

What leaves the image is lost, and what is empty becomes grey.
"""

from __future__ import annotations

import math

import numpy as np
from PIL import Image

from counterpose_core.transforms.arrays import GREY, Pixels

FILL = (GREY, GREY, GREY)


def rotation(pixels: Pixels, *, degrees: float) -> Pixels:
    """Turn about the middle, against the clock."""
    image = Image.fromarray(pixels)
    return np.asarray(image.rotate(degrees, Image.Resampling.BICUBIC, fillcolor=FILL))


def upside_down(pixels: Pixels) -> Pixels:
    """Turn by half a circle."""
    return pixels[::-1, ::-1]


def flip_horizontal(pixels: Pixels) -> Pixels:
    """Swap left and right."""
    return pixels[:, ::-1]


def flip_vertical(pixels: Pixels) -> Pixels:
    """Swap top and bottom."""
    return pixels[::-1]


def shrinking(pixels: Pixels, *, factor: float) -> Pixels:
    """Make the image smaller, in the middle of grey."""
    height, width = pixels.shape[:2]
    size = max(1, round(width * factor)), max(1, round(height * factor))
    whole = Image.new("RGB", (width, height), FILL)
    small = Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS)
    whole.paste(small, ((width - size[0]) // 2, (height - size[1]) // 2))
    return np.asarray(whole)


def crop(pixels: Pixels, *, share: float) -> Pixels:
    """Keep this share of each side, in the middle, and enlarge it to the size of the image."""
    height, width = pixels.shape[:2]
    left, top = width * (1 - share) / 2, height * (1 - share) / 2
    box = (left, top, width - left, height - top)
    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC, box))


def translation(pixels: Pixels, *, share: float, generator: np.random.Generator) -> Pixels:
    """Move by this share of the longest side, in a random direction."""
    height, width = pixels.shape[:2]
    angle = generator.uniform(0, 2 * math.pi)
    far = share * max(height, width)
    right, down = round(far * math.cos(angle)), round(far * math.sin(angle))
    whole = np.full_like(pixels, GREY)
    whole[max(down, 0) : height + min(down, 0), max(right, 0) : width + min(right, 0)] = pixels[
        max(-down, 0) : height - max(down, 0), max(-right, 0) : width - max(right, 0)
    ]
    return whole


def perspective(pixels: Pixels, *, share: float, generator: np.random.Generator) -> Pixels:
    """Tilt: shorten one of the sides, drawn at random, by this share, and the way to it by half of that."""
    turns = int(generator.integers(4))
    turned = np.rot90(pixels, turns)
    height, width = turned.shape[:2]
    top, inset = height * share / 2, width * share / 2
    corners = ((inset, top), (width - inset, top), (width, height), (0, height))
    sources = ((0, 0), (width, 0), (width, height), (0, height))
    equations = [row for pair in zip(corners, sources, strict=True) for row in _equations(*pair)]
    factors = np.linalg.solve(np.array(equations), np.ravel(sources))
    image = Image.fromarray(np.ascontiguousarray(turned)).transform(
        (width, height), Image.Transform.PERSPECTIVE, tuple(factors), Image.Resampling.BICUBIC, fillcolor=FILL
    )
    return np.rot90(np.asarray(image), -turns)


def _equations(corner: tuple[float, float], source: tuple[float, float]) -> tuple[list[float], list[float]]:
    """Return two rows of the linear system for the eight numbers of a projective map."""
    (x, y), (u, v) = corner, source
    return [x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]
