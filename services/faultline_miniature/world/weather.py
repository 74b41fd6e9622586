"""Clear, rain, fog and night, laid over a styled 64-pixel image in 0..1."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from faultline_miniature.world.nuisance import Nuisance, Stream

Pixels = np.ndarray
_SIDE = 64
_ROWS, _COLUMNS = np.mgrid[0:_SIDE, 0:_SIDE].astype(np.float32)
_RAIN_LIGHT = np.array([0.70, 0.78, 0.92], np.float32)
_NIGHT_LIGHT = np.array([0.56, 0.60, 0.80], np.float32)
_FOG = np.array([0.80, 0.81, 0.83], np.float32)
_MOON = np.array([1.0, 0.97, 0.78], np.float32)


def weathered(image: Pixels, weather: str, nuisance: Nuisance) -> Pixels:
    """Lay weather over a float32 image [64, 64, 3]."""
    if weather == "rain":
        return _rain(image, nuisance.generator(Stream.WEATHER))
    # No denser: over a sketch's pale lines the small autoencoder keeps nothing of a thicker veil.
    if weather == "fog":
        return np.asarray(image + 0.35 * (_FOG - image))
    return _night(image, nuisance) if weather == "night" else image


def _rain(image: Pixels, generator: np.random.Generator) -> Pixels:
    sheet = Image.new("L", (2 * _SIDE, 2 * _SIDE), 0)
    draw = ImageDraw.Draw(sheet)
    # Few, short and laid over the style: long streaks drawn before it were lost in the autoencoder.
    for column, row, jitter in generator.random((16, 3)):
        x, y = 2 * _SIDE * column, 2 * _SIDE * row
        draw.line((x, y, x - 5, y + 14 + 4 * jitter), fill=255, width=3)
    streaks = np.asarray(sheet.reduce(2), dtype=np.float32)[..., None] / 255
    wet = image * _RAIN_LIGHT
    return np.asarray(wet + 0.55 * streaks * (np.float32(0.94) - wet), dtype=np.float32)


def _night(image: Pixels, nuisance: Nuisance) -> Pixels:
    # The moon hangs above the companion's side, where no object reaches.
    x, y = (10.0 if nuisance.companion_side < 0 else 53.0), 8.5
    distance = np.hypot(_COLUMNS - x, _ROWS - y)[..., None]
    disc, glow = np.clip(5.5 - distance, 0.0, 1.0), 0.35 * np.exp(-distance / 7.0)
    # A bright night: dark green on dark green was more than the small autoencoder could hold.
    dark = image * _NIGHT_LIGHT
    dark = dark + glow * (_MOON - dark)
    return np.asarray(dark + disc * (_MOON - dark), dtype=np.float32)
