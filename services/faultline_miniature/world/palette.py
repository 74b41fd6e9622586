"""Colours of the world, 0..255 RGB, chosen apart from each other after a blurry autoencoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from faultline_miniature.world.brush import RGB

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


@dataclass(frozen=True, slots=True)
class Paint:
    """The colours one object is drawn with."""

    main: RGB
    shade: RGB
    light: RGB
    patch: RGB


def paint(colour: str, shift: RGB) -> Paint:
    """Return an object's paint, shifted by its palette jitter."""
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
