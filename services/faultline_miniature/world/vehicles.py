"""Bus, tram, boat and sled."""

from __future__ import annotations

import math

from faultline_miniature.world.brush import OUTLINE, RGB, Brush, Point
from faultline_miniature.world.palette import CREAM, DARK, GLASS, Paint

_WOOD: RGB = (112, 66, 30)
_PARCEL: RGB = (236, 110, 176)
_OTHER_PARCEL: RGB = (60, 190, 176)
_RIBBON: RGB = (250, 240, 120)


def bus(brush: Brush, paint: Paint, special: bool) -> None:
    """Draw a square-ended bus on two big wheels; special: with an upper deck."""
    top = -0.92 if special else -0.5
    brush.box(-1.0, top, 1.0, 0.52, paint.main)
    _windows(brush, -0.28, 4)
    if special:
        brush.line([(-0.96, -0.42), (0.96, -0.42)], OUTLINE, 6)
        _windows(brush, -0.8, 4)
    for x in (-0.55, 0.55):
        brush.ellipse((x, 0.54), (0.26, 0.26), DARK)
        brush.ellipse((x, 0.54), (0.1, 0.1), CREAM, outline=0)


def tram(brush: Brush, paint: Paint, special: bool) -> None:
    """Draw a round-ended tram under a pantograph, with a cream stripe; special: with an upper deck."""
    top = -0.78 if special else -0.38
    brush.line([(-0.26, top), (0.0, top - 0.24), (0.26, top), (0.0, top - 0.44), (-0.26, top)], OUTLINE, 9)
    brush.line([(-0.5, top - 0.46), (0.5, top - 0.46)], OUTLINE, 11)
    brush.box(-0.7, 0.5, 0.7, 0.76, DARK, outline=0)
    brush.polygon(_capsule(top, 0.6, 0.32), paint.main)
    brush.box(-0.98, 0.18, 0.98, 0.36, CREAM, outline=0)
    _windows(brush, -0.2, 3)
    if special:
        brush.line([(-0.94, -0.31), (0.94, -0.31)], OUTLINE, 6)
        _windows(brush, -0.66, 3)


def _windows(brush: Brush, top: float, count: int) -> None:
    step = 1.6 / count
    for index in range(count):
        left = -0.8 + index * step + 0.05
        brush.box(left, top, left + step - 0.1, top + 0.3, GLASS, outline=4)


def _capsule(top: float, bottom: float, reach: float) -> list[Point]:
    middle, half = (top + bottom) / 2, (bottom - top) / 2
    arc = [(math.cos(t), math.sin(t)) for t in (math.pi * (step / 12 - 0.5) for step in range(13))]
    right = [(1.0 - reach + reach * x, middle + half * y) for x, y in arc]
    left = [(-(1.0 - reach) - reach * x, middle - half * y) for x, y in arc]
    return right + left


def boat(brush: Brush, paint: Paint, special: bool) -> None:
    """Draw a sailing boat; its close-up (special) is framed by the renderer."""
    del special
    brush.line([(0.0, 0.5), (0.0, -1.02)], _WOOD, 11)
    brush.polygon([(0.1, -0.98), (0.1, 0.24), (0.86, 0.24)], paint.light)
    brush.polygon([(-0.1, -0.74), (-0.1, 0.24), (-0.66, 0.24)], CREAM)
    brush.polygon([(-1.04, 0.36), (1.04, 0.36), (0.68, 0.94), (-0.7, 0.94)], paint.main)
    brush.line([(-0.86, 0.56), (0.86, 0.56)], paint.shade, 9)


def sled(brush: Brush, paint: Paint, special: bool) -> None:
    """Draw a sleigh with a high back and a curled front; special: laden with gifts."""
    if special:
        _gift(brush, -0.3, -0.62, 0.3, _PARCEL)
        _gift(brush, 0.26, -0.36, 0.26, _OTHER_PARCEL)
    runner = [(-0.94, 0.84), (0.72, 0.84), (0.94, 0.74), (1.04, 0.52)]
    for x in (-0.5, 0.3):
        brush.line([(x, 0.4), (x, 0.84)], _WOOD, 13)
    brush.line(runner, OUTLINE, 16)
    brush.line(runner, _WOOD, 8)
    body = [(-1.0, -0.72), (-0.74, -0.76), (-0.6, -0.12), (0.3, -0.04), (0.56, -0.3), (0.66, -0.62)]
    body += [(0.94, -0.7), (1.04, -0.48), (0.94, 0.1), (0.66, 0.5), (-0.66, 0.5), (-0.9, 0.16)]
    brush.polygon(body, paint.main)
    brush.line([(-0.72, 0.2), (0.74, 0.2)], paint.shade, 10)


def _gift(brush: Brush, x: float, top: float, half: float, colour: RGB) -> None:
    brush.box(x - half, top, x + half, 0.2, colour)
    brush.line([(x, top), (x, 0.2)], _RIBBON, 11)
