"""The eight classes: plate and kite here, the others in `vehicles` and `creatures`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from faultline_miniature.world.brush import OUTLINE, RGB, Brush
from faultline_miniature.world.creatures import bee, fly
from faultline_miniature.world.palette import Paint
from faultline_miniature.world.vehicles import boat, bus, sled, tram

_MEAT: RGB = (124, 66, 34)
_PEAS: RGB = (120, 190, 40)
_CARROT: RGB = (246, 130, 24)


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


Draw = Callable[[Brush, Paint, bool], None]

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
