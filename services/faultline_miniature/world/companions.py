"""What stands beside the object: a dog, a person or a ball, in colours of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from faultline_miniature.world.brush import OUTLINE, RGB, Brush

_FUR: RGB = (134, 78, 34)
_MUZZLE: RGB = (226, 184, 130)
_EAR: RGB = (78, 42, 18)
_SHIRT: RGB = (138, 42, 176)
_SKIN: RGB = (244, 196, 156)
_TROUSERS: RGB = (46, 42, 62)
_ORANGE: RGB = (250, 124, 16)
_WHITE: RGB = (252, 250, 244)


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
