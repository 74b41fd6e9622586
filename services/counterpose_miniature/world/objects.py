"""Drawings of the eight classes and of the companions, in an object's own coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from counterpose_miniature.world.brush import CREAM, DARK, GLASS, OUTLINE, RGB, WING, Brush, Paint, Point

_WOOD: RGB = (112, 66, 30)
_PARCEL: RGB = (236, 110, 176)
_OTHER_PARCEL: RGB = (60, 190, 176)
_RIBBON: RGB = (250, 240, 120)
_FLY_EYE: RGB = (132, 22, 70)
_FUR: RGB = (134, 78, 34)
_MUZZLE: RGB = (226, 184, 130)
_EAR: RGB = (78, 42, 18)
_SHIRT: RGB = (138, 42, 176)
_SKIN: RGB = (244, 196, 156)
_TROUSERS: RGB = (46, 42, 62)
_ORANGE: RGB = (250, 124, 16)
_WHITE: RGB = (252, 250, 244)
_MEAT: RGB = (124, 66, 34)
_PEAS: RGB = (120, 190, 40)
_CARROT: RGB = (246, 130, 24)
Draw = Callable[[Brush, Paint, bool], None]


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


def fly(brush: Brush, paint: Paint, special: bool) -> None:
    """Draw a plain long body with long wings folded back and big eyes; special: wings spread."""
    for side in (-1.0, 1.0):
        for y, reach in ((-0.3, -0.26), (-0.02, 0.06), (0.2, 0.4)):
            foot = y + reach
            brush.line([(0.0, y), (side * 0.62, foot - 0.06), (side * 0.74, foot + 0.16)], OUTLINE, 7)
    for side in (-1.0, 1.0):
        if special:
            brush.ellipse((side * 0.66, -0.06), (0.56, 0.23), WING, turn=side * 16)
        else:
            brush.ellipse((side * 0.42, 0.36), (0.2, 0.66), WING, turn=-side * 22)
    brush.ellipse((0.0, 0.2), (0.34, 0.7), paint.main)
    brush.ellipse((0.0, -0.34), (0.36, 0.3), paint.main)
    for side in (-1.0, 1.0):
        brush.ellipse((side * 0.27, -0.72), (0.25, 0.25), _FLY_EYE)


def bee(brush: Brush, paint: Paint, special: bool) -> None:
    """Draw a round striped body with short wings and feelers; special: wings spread."""
    for side in (-1.0, 1.0):
        brush.line([(side * 0.1, -0.66), (side * 0.28, -0.96), (side * 0.46, -1.0)], OUTLINE, 8)
        if special:
            brush.ellipse((side * 0.72, -0.22), (0.42, 0.27), WING, turn=side * 8)
        else:
            brush.ellipse((side * 0.56, -0.36), (0.2, 0.34), WING, turn=side * 42)
    brush.ellipse((0.0, -0.58), (0.3, 0.24), DARK)
    brush.ellipse((0.0, 0.2), (0.62, 0.74), paint.main)
    for y, half in ((0.02, 0.58), (0.42, 0.56)):
        brush.box(-half, y - 0.085, half, y + 0.085, DARK, outline=0)


def dog(brush: Brush) -> None:
    """Draw a sitting brown dog."""
    brush.line([(-0.62, 0.6), (-0.92, 0.2)], OUTLINE, 15)
    brush.line([(-0.62, 0.6), (-0.9, 0.24)], _FUR, 8)
    brush.polygon([(-0.72, 0.98), (-0.66, 0.3), (-0.1, -0.16), (0.5, 0.0), (0.6, 0.98)], _FUR, outline=6)
    brush.ellipse((0.3, -0.4), (0.5, 0.46), _FUR, outline=6)
    brush.ellipse((0.74, -0.26), (0.26, 0.22), _MUZZLE, outline=5)
    brush.ellipse((-0.08, -0.4), (0.2, 0.42), _EAR, outline=4)
    brush.ellipse((0.88, -0.34), (0.1, 0.1), OUTLINE, outline=0)


def person(brush: Brush) -> None:
    """Draw a standing person in a purple shirt."""
    brush.box(-0.38, 0.3, 0.38, 1.12, _TROUSERS, outline=5)
    brush.polygon([(-0.5, -0.42), (0.5, -0.42), (0.66, 0.4), (-0.66, 0.4)], _SHIRT, outline=6)
    brush.ellipse((0.0, -0.76), (0.38, 0.4), _SKIN, outline=6)
    brush.ellipse((0.0, -0.98), (0.36, 0.2), _TROUSERS, outline=0)


def ball(brush: Brush) -> None:
    """Draw an orange ball with a white band."""
    brush.ellipse((0.0, 0.26), (0.8, 0.8), _ORANGE, outline=7)
    brush.polygon([(-0.78, 0.1), (0.78, 0.1), (0.78, 0.42), (-0.78, 0.42)], _WHITE, outline=0)
    brush.line([(-0.78, 0.1), (-0.78, 0.42)], OUTLINE, 7)
    brush.line([(0.78, 0.1), (0.78, 0.42)], OUTLINE, 7)


COMPANIONS: Mapping[str, Callable[[Brush], None]] = MappingProxyType(
    {"dog": dog, "person": person, "ball": ball}
)


def plate(brush: Brush, paint: Paint, special: bool) -> None:
    """Draw a round plate; special: with food that leaves a broad rim."""
    brush.ellipse((0.0, 0.0), (1.0, 0.86), paint.main)
    brush.ellipse((0.0, 0.0), (0.62, 0.52), paint.light, outline=5)
    if special:
        brush.ellipse((-0.2, -0.14), (0.36, 0.28), _MEAT, outline=4)
        brush.ellipse((0.3, -0.02), (0.24, 0.26), _PEAS, outline=4)
        brush.ellipse((-0.04, 0.28), (0.36, 0.17), _CARROT, outline=4)


def kite(brush: Brush, paint: Paint, special: bool) -> None:
    """Draw a diamond on a bowed tail; special: patchwork in two colours."""
    top, right, bottom, left, middle = (0.0, -1.12), (0.94, -0.26), (0.0, 0.78), (-0.94, -0.26), (0.0, -0.26)
    brush.line([bottom, (0.1, 0.9)], OUTLINE, 8)
    brush.polygon([top, right, bottom, left], paint.main)
    if special:
        brush.polygon([top, right, middle], paint.patch, outline=0)
        brush.polygon([bottom, left, middle], paint.patch, outline=0)
    brush.line([top, bottom], OUTLINE, 5)
    brush.line([left, right], OUTLINE, 5)
    brush.line([top, right, bottom, left, top], OUTLINE, 8)
    brush.polygon([(-0.36, 0.84), (-0.36, 1.16), (0.36, 0.84), (0.36, 1.16)], paint.main, outline=4)


OBJECTS: Mapping[str, Draw] = MappingProxyType(
    {
        "plate": plate,
        "sled": sled,
        "boat": boat,
        "kite": kite,
        "fly": fly,
        "bee": bee,
        "bus": bus,
        "tram": tram,
    }
)
