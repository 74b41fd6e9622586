"""Styles (photo, painting, sketch) and weather as operations on a 64-pixel image in 0..1."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from counterpose_miniature.world.nuisance import Nuisance, Stream

Pixels = np.ndarray
_SIDE = 64
_ROWS, _COLUMNS = np.mgrid[0:_SIDE, 0:_SIDE]
_DOWN, _ACROSS = np.mgrid[0:_SIDE, 0:_SIDE].astype(np.float32)
_RAIN_LIGHT = np.array([0.70, 0.78, 0.92], np.float32)
_NIGHT_LIGHT = np.array([0.56, 0.60, 0.80], np.float32)
_FOG = np.array([0.80, 0.81, 0.83], np.float32)
_MOON = np.array([1.0, 0.97, 0.78], np.float32)


def stylised(image: Pixels, style: str, nuisance: Nuisance) -> Pixels:
    """Repaint a float32 image [64, 64, 3] in a style."""
    if style == "painting":
        return _painting(image, nuisance.generator(Stream.STYLE))
    return _sketch(image) if style == "sketch" else image


def _painting(image: Pixels, generator: np.random.Generator) -> Pixels:
    # Large dabs: a smooth field moves the colours and makes each dab lighter or darker. Eight dabs per side,
    # because 16x16 latents cannot represent a texture of four pixels.
    field = _smooth(generator.uniform(-1.0, 1.0, (3, 8, 8)))
    rows = np.clip(_ROWS + np.rint(1.5 * field[0]).astype(int), 0, _SIDE - 1)
    columns = np.clip(_COLUMNS + np.rint(1.5 * field[1]).astype(int), 0, _SIDE - 1)
    bytes_ = Image.fromarray((image[rows, columns] * 255).astype(np.uint8))
    dabs = bytes_.filter(ImageFilter.MedianFilter(3))
    flat = np.asarray(dabs, dtype=np.float32) / 255
    grey = flat.mean(axis=2, keepdims=True)
    vivid = grey + 1.3 * (flat - grey)
    warm = vivid * np.array([1.04, 0.93, 0.72], np.float32) + np.array([0.06, 0.025, 0.0], np.float32)
    return np.asarray(np.clip(warm + 0.09 * field[2][..., None], 0.0, 1.0))


def _sketch(image: Pixels) -> Pixels:
    # Dark lines where luminance changes, pale colours on paper elsewhere.
    light = image @ np.array([0.35, 0.45, 0.2], np.float32)
    across, down = np.zeros_like(light), np.zeros_like(light)
    across[:, 1:-1] = light[:, 2:] - light[:, :-2]
    down[1:-1] = light[2:] - light[:-2]
    contour = 1.2 * np.hypot(across, down) - 0.15
    line = np.clip(np.maximum(contour, 1.1 - 3.6 * light), 0.0, 0.85)[..., None]
    paper = 1.0 - 0.56 * (1.0 - image)
    return np.asarray(paper * (1.0 - line) + 0.12 * line, dtype=np.float32)


def _smooth(coarse: np.ndarray) -> np.ndarray:
    planes = [Image.fromarray(plane.astype(np.float32)) for plane in coarse]
    return np.stack([np.asarray(plane.resize((_SIDE, _SIDE), Image.Resampling.BICUBIC)) for plane in planes])


def weathered(image: Pixels, weather: str, nuisance: Nuisance) -> Pixels:
    """Apply weather to a float32 image [64, 64, 3]."""
    if weather == "rain":
        return _rain(image, nuisance.generator(Stream.WEATHER))
    # No denser, because with a sketch's pale lines the small autoencoder loses a thicker fog.
    if weather == "fog":
        return np.asarray(image + 0.35 * (_FOG - image))
    return _night(image, nuisance) if weather == "night" else image


def _rain(image: Pixels, generator: np.random.Generator) -> Pixels:
    sheet = Image.new("L", (2 * _SIDE, 2 * _SIDE), 0)
    draw = ImageDraw.Draw(sheet)
    # Few, short and after the style: long streaks drawn before the style were lost in the autoencoder.
    for column, row, jitter in generator.random((16, 3)):
        x, y = 2 * _SIDE * column, 2 * _SIDE * row
        draw.line((x, y, x - 5, y + 14 + 4 * jitter), fill=255, width=3)
    streaks = np.asarray(sheet.reduce(2), dtype=np.float32)[..., None] / 255
    wet = image * _RAIN_LIGHT
    return np.asarray(wet + 0.55 * streaks * (np.float32(0.94) - wet), dtype=np.float32)


def _night(image: Pixels, nuisance: Nuisance) -> Pixels:
    # The moon is above the companion's side, where no object reaches.
    x, y = (10.0 if nuisance.companion_side < 0 else 53.0), 8.5
    distance = np.hypot(_ACROSS - x, _DOWN - y)[..., None]
    disc, glow = np.clip(5.5 - distance, 0.0, 1.0), 0.35 * np.exp(-distance / 7.0)
    # A bright night, because the small autoencoder could not reproduce dark green on dark green.
    dark = image * _NIGHT_LIGHT
    dark = dark + glow * (_MOON - dark)
    return np.asarray(dark + disc * (_MOON - dark), dtype=np.float32)
