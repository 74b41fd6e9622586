"""A brush that draws in an object's own coordinates, and the world's colours, RGB in 0..255."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from PIL import ImageDraw

RGB = tuple[int, int, int]
Point = tuple[float, float]

OUTLINE: RGB = (28, 24, 30)
_RING = tuple(2.0 * math.pi * step / 28 for step in range(28))
# Chosen far apart from each other, because the autoencoder blurs.
OBJECT_COLOURS: Mapping[str, RGB] = MappingProxyType(
    {
        "red": (222, 32, 36),
        "yellow": (252, 212, 20),
        "green": (22, 140, 52),
        "blue": (38, 70, 216),
        "white": (246, 246, 246),
    }
)
# The bold second colour of patchwork, never one of the object colours.
PATCH_COLOURS: Mapping[str, RGB] = MappingProxyType(
    {
        "red": (70, 220, 226),
        "yellow": (128, 40, 160),
        "green": (250, 120, 190),
        "blue": (250, 146, 30),
        "white": (128, 40, 160),
    }
)
GLASS: RGB = (168, 208, 226)
WING: RGB = (206, 222, 234)
CREAM: RGB = (250, 238, 206)
DARK: RGB = (44, 40, 48)


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


@dataclass(frozen=True, slots=True)
class Paint:
    """The colours one object is drawn with."""

    main: RGB
    shade: RGB
    light: RGB
    patch: RGB


def paint(colour: str, shift: RGB) -> Paint:
    """Return an object's paint, shifted by its random palette."""
    main = shifted(OBJECT_COLOURS[colour], shift)
    return Paint(main, mixed(main, DARK, 0.22), mixed(main, (255, 255, 255), 0.35), PATCH_COLOURS[colour])


def shifted(colour: RGB, shift: RGB) -> RGB:
    """Add a shift to each channel, clipped to 0..255."""
    red, green, blue = (min(255, max(0, channel + step)) for channel, step in zip(colour, shift, strict=True))
    return red, green, blue


def mixed(colour: RGB, other: RGB, share: float) -> RGB:
    """Mix `share` of another colour into one."""
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(colour, other, strict=True))
    return red, green, blue
