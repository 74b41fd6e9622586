"""Fly and bee, seen from above: the confusable pair of insects."""

from __future__ import annotations

from faultline_miniature.world.brush import OUTLINE, RGB, Brush
from faultline_miniature.world.palette import DARK, WING, Paint

_FLY_EYE: RGB = (132, 22, 70)


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
