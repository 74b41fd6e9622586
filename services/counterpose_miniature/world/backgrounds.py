"""Six backgrounds, each with its own sky and ground, on a 256-pixel canvas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from PIL import Image, ImageDraw

from counterpose_miniature.world.brush import RGB, mixed, shifted
from counterpose_miniature.world.nuisance import Nuisance, Stream

SIDE = 256

# Sky at the top, sky at the horizon, ground at the horizon, ground at the bottom.
_ZONES: Mapping[str, tuple[RGB, RGB, RGB, RGB]] = MappingProxyType(
    {
        "grass": ((120, 186, 244), (196, 226, 248), (150, 202, 84), (128, 184, 66)),
        "water": ((206, 226, 238), (238, 232, 214), (60, 160, 178), (84, 190, 200)),
        "snow": ((176, 194, 214), (206, 218, 230), (238, 243, 250), (222, 230, 242)),
        "sand": ((250, 206, 140), (252, 230, 186), (232, 198, 132), (222, 182, 112)),
        "road": ((190, 188, 198), (214, 212, 216), (126, 126, 132), (104, 104, 112)),
        "flowers": ((176, 214, 236), (222, 232, 226), (70, 128, 58), (86, 148, 66)),
    }
)


def background(name: str, nuisance: Nuisance) -> Image.Image:
    """Paint a background; returns an RGB image of 256 x 256."""
    horizon = round(nuisance.horizon * 4)
    zones = [shifted(colour, nuisance.scene_palette) for colour in _ZONES[name]]
    column = np.empty((SIDE, 1, 3), dtype=np.uint8)
    column[:horizon, 0] = _blend(zones[0], zones[1], horizon)
    column[horizon:, 0] = _blend(zones[2], zones[3], SIDE - horizon)
    image = Image.fromarray(column).resize((SIDE, SIDE))
    _DETAILS[name](ImageDraw.Draw(image), horizon, nuisance.generator(Stream.TEXTURE), nuisance.scene_palette)
    return image


def _blend(start: RGB, stop: RGB, count: int) -> np.ndarray:
    share = np.linspace(0.0, 1.0, count)[:, None]
    return np.asarray(np.array(start) + share * (np.array(stop) - np.array(start)), dtype=np.uint8)


Detail = Callable[[ImageDraw.ImageDraw, int, np.random.Generator, RGB], None]


def _grass(draw: ImageDraw.ImageDraw, horizon: int, generator: np.random.Generator, shift: RGB) -> None:
    hill = shifted((74, 140, 72), shift)
    peak = int(generator.integers(20, 236))
    draw.ellipse((peak - 150, horizon - 34, peak + 150, horizon + 34), fill=hill)
    draw.rectangle((0, horizon, SIDE, SIDE), fill=shifted((140, 194, 76), shift))
    for x, y in _scatter(generator, 9, horizon):
        draw.polygon([(x - 12, y), (x, y - 18), (x + 12, y)], fill=shifted((104, 166, 54), shift))


def _water(draw: ImageDraw.ImageDraw, horizon: int, generator: np.random.Generator, shift: RGB) -> None:
    draw.rectangle((0, horizon - 5, SIDE, horizon + 1), fill=shifted((44, 96, 120), shift))
    for x, y in _scatter(generator, 10, horizon):
        draw.rounded_rectangle((x - 30, y, x + 30, y + 7), 3, fill=shifted((170, 228, 230), shift))


def _snow(draw: ImageDraw.ImageDraw, horizon: int, generator: np.random.Generator, shift: RGB) -> None:
    base = int(generator.integers(-40, 40))
    for left in range(base - 90, SIDE + 60, 110):
        draw.polygon(
            [(left, horizon), (left + 62, horizon - 64), (left + 124, horizon)],
            fill=shifted((126, 144, 174), shift),
        )
        draw.polygon(
            [(left + 40, horizon - 41), (left + 62, horizon - 64), (left + 84, horizon - 41)],
            fill=shifted((244, 247, 252), shift),
        )
    for x, y in _scatter(generator, 4, horizon):
        draw.ellipse((x - 44, y - 5, x + 44, y + 8), fill=shifted((204, 216, 234), shift))


def _sand(draw: ImageDraw.ImageDraw, horizon: int, generator: np.random.Generator, shift: RGB) -> None:
    dune = shifted((202, 150, 84), shift)
    peak = int(generator.integers(30, 226))
    draw.polygon([(peak - 170, horizon + 2), (peak, horizon - 42), (peak + 120, horizon + 2)], fill=dune)
    for x, y in _scatter(generator, 6, horizon):
        draw.arc((x - 46, y - 12, x + 46, y + 20), 200, 340, fill=shifted((196, 150, 84), shift), width=7)


def _road(draw: ImageDraw.ImageDraw, horizon: int, generator: np.random.Generator, shift: RGB) -> None:
    left = -int(generator.integers(0, 40))
    while left < SIDE:
        width, height = int(generator.integers(36, 64)), int(generator.integers(26, 66))
        tone = mixed((132, 92, 86), (92, 88, 112), float(generator.random()))
        draw.rectangle((left, horizon - height, left + width, horizon), fill=shifted(tone, shift))
        left += width + 6
    draw.rectangle((0, horizon, SIDE, horizon + 7), fill=shifted((206, 202, 198), shift))
    start = -int(generator.integers(0, 70))
    for x in range(start, SIDE, 72):
        draw.rectangle((x, 226, x + 40, 236), fill=(244, 242, 232))


def _flowers(draw: ImageDraw.ImageDraw, horizon: int, generator: np.random.Generator, shift: RGB) -> None:
    for x in range(-int(generator.integers(0, 44)), SIDE + 20, 44):
        draw.ellipse((x, horizon - 34, x + 52, horizon + 14), fill=shifted((34, 88, 54), shift))
    draw.rectangle((0, horizon + 2, SIDE, SIDE), fill=shifted((78, 138, 62), shift))
    for x, y in _scatter(generator, 13, horizon + 8):
        draw.ellipse((x - 15, y - 15, x + 15, y + 15), fill=shifted((240, 88, 168), shift))
        draw.ellipse((x - 5, y - 5, x + 5, y + 5), fill=(252, 236, 236))


def _scatter(generator: np.random.Generator, count: int, horizon: int) -> list[tuple[int, int]]:
    # One per column strip, so that part of the texture is visible next to any object.
    across = (np.arange(count) + generator.random(count)) * SIDE / count
    step = (SIDE - horizon - 14) / count
    down = horizon + 14 + step * generator.permutation(count) + generator.uniform(0, 8, count)
    return [(int(x), int(y)) for x, y in zip(across, down, strict=True)]


_DETAILS: Mapping[str, Detail] = MappingProxyType(
    {"grass": _grass, "water": _water, "snow": _snow, "sand": _sand, "road": _road, "flowers": _flowers}
)
