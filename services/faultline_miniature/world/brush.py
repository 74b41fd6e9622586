"""A brush: Pillow drawing in an object's own coordinates, placed, turned and outlined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import ImageDraw

RGB = tuple[int, int, int]
Point = tuple[float, float]

OUTLINE: RGB = (28, 24, 30)


@dataclass(frozen=True)
class Brush:
    """Maps unit coordinates (x right, y down, the object within [-1, 1]) onto a 256-pixel canvas."""

    canvas: ImageDraw.ImageDraw
    centre: Point
    scale: float
    angle: float = 0.0
    flip: bool = False
    outline: float = 7.0

    def place(self, points: Sequence[Point]) -> list[Point]:
        """Return canvas pixels of unit points."""
        cos, sin = math.cos(math.radians(self.angle)), math.sin(math.radians(self.angle))
        side = -1.0 if self.flip else 1.0
        x0, y0 = self.centre
        return [
            (x0 + self.scale * (side * x * cos - y * sin), y0 + self.scale * (side * x * sin + y * cos))
            for x, y in points
        ]

    def polygon(self, points: Sequence[Point], fill: RGB, outline: float | None = None) -> None:
        """Fill a polygon and draw its outline (pixels of the 256 canvas; 0 for none)."""
        placed = self.place(points)
        self.canvas.polygon(placed, fill=fill)
        width = self.outline if outline is None else outline
        if width:
            self.canvas.line([*placed, placed[0], placed[1]], fill=OUTLINE, width=round(width), joint="curve")

    def ellipse(
        self, centre: Point, radii: Point, fill: RGB, *, turn: float = 0.0, outline: float | None = None
    ) -> None:
        """Fill an ellipse turned by `turn` degrees."""
        self.polygon(_ellipse(centre, radii, turn), fill, outline)

    def box(
        self, left: float, top: float, right: float, bottom: float, fill: RGB, outline: float | None = None
    ) -> None:
        """Fill an upright rectangle."""
        self.polygon([(left, top), (right, top), (right, bottom), (left, bottom)], fill, outline)

    def line(self, points: Sequence[Point], fill: RGB = OUTLINE, width: float = 7.0) -> None:
        """Draw a polyline; width in pixels of the 256 canvas."""
        self.canvas.line(self.place(points), fill=fill, width=round(width), joint="curve")


def _ellipse(centre: Point, radii: Point, turn: float) -> list[Point]:
    cos, sin = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    ring = [(radii[0] * math.cos(t), radii[1] * math.sin(t)) for t in _RING]
    return [(centre[0] + x * cos - y * sin, centre[1] + x * sin + y * cos) for x, y in ring]


_RING = tuple(2.0 * math.pi * step / 28 for step in range(28))
