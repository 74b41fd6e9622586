"""Marks that people and programs put on photographs: text, a watermark, a border and the date."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from counterpose_core.transforms.arrays import Pixels

WORDS = ("COPY", "DRAFT", "NEW", "PREVIEW", "SAMPLE", "SOLD")
"""Words that name no thing that a classifier could see."""
WATERMARK = "WATERMARK"
WIDEST = 0.9
"""Share of the image's width that writing takes at most."""
STAMP = (255, 140, 20)
"""The orange of the date on prints of film."""
MARGIN = 0.95
"""Where the date ends, as a share of both sides."""
DAYS = 9_000
"""Days from 2000 on, of which the date is drawn."""


def text(pixels: Pixels, *, share: float, generator: np.random.Generator) -> Pixels:
    """Write a word in white with a black edge at a random place, this share of the shorter side high."""
    place = generator.random(2)
    return _written(pixels, str(generator.choice(WORDS)), share, (place[0], place[1]), "white", edge=0.08)


def watermark(pixels: Pixels, *, opacity: float, share: float) -> Pixels:
    """Write across the middle in translucent white, as ImageNet-W (Li et al. 2023) does.

    Theirs is Chinese; Pillow's own font has Latin letters only.
    """
    marked = _written(pixels, WATERMARK, share, (0.5, 0.5), "white")
    return np.asarray(Image.blend(Image.fromarray(pixels), Image.fromarray(marked), opacity))


def date_stamp(pixels: Pixels, *, share: float, generator: np.random.Generator) -> Pixels:
    """Write a random day in the lower right corner, as film does, this share of the shorter side high."""
    day = np.datetime64("2000-01-01") + int(generator.integers(DAYS))
    return _written(pixels, "'" + str(day)[2:].replace("-", " "), share, (MARGIN, MARGIN), STAMP)


def border(pixels: Pixels, *, share: float, grey: float) -> Pixels:
    """Cover a border of this share of the shorter side, all around."""
    width = max(1, round(share * min(pixels.shape[:2])))
    framed = np.full_like(pixels, grey)
    framed[width:-width, width:-width] = pixels[width:-width, width:-width]
    return framed


def _written(
    pixels: Pixels,
    words: str,
    share: float,
    place: tuple[float, float],
    colour: str | tuple[int, int, int],
    edge: float = 0.0,
) -> Pixels:
    """Return the image with words whose left and upper rooms are shares ``place`` of what is free."""
    image = Image.fromarray(pixels)
    draw = ImageDraw.Draw(image)
    # Long words shrink until they fit.
    widest = WIDEST * image.width / draw.textlength(words, ImageFont.load_default(100)) * 100
    size = max(1.0, min(share * min(image.size), widest))
    font, stroke = ImageFont.load_default(size), round(edge * size)
    left, top, right, bottom = draw.textbbox((0, 0), words, font, stroke_width=stroke)
    room = image.width - (right - left), image.height - (bottom - top)
    corner = place[0] * room[0] - left, place[1] * room[1] - top
    draw.text(corner, words, colour, font, stroke_width=stroke, stroke_fill="black")
    return np.asarray(image)
