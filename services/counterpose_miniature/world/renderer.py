"""Renders a scene: drawn at 256 pixels, reduced to 64, then style, weather and noise."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from counterpose_miniature.world.backgrounds import SIDE, background
from counterpose_miniature.world.brush import Brush, paint
from counterpose_miniature.world.nuisance import Nuisance, Stream, nuisance_of
from counterpose_miniature.world.objects import COMPANIONS, OBJECTS
from counterpose_miniature.world.scene import Scene
from counterpose_miniature.world.styles import stylised, weathered

IMAGE_SIDE = 64
_REDUCTION = SIDE // IMAGE_SIDE
# Half the size of an object and of a companion, in 64-pixel units. Both are large, and companions have one
# size: with smaller objects, a probe recognised .78 to .85 of them after the autoencoder, and .70 to .76 of
# companions of varying size.
_OBJECT_HALF = 19.0
_COMPANION_HALF = 10.2
_CLOSE_UP = 1.4
_NOISE = 2.0 / 255.0


def render(scene: Scene) -> np.ndarray:
    """Render a scene as uint8 [64, 64, 3]; the same scene always gives the same bytes."""
    nuisance = nuisance_of(scene.nuisance)
    # Box-averaged from four times the size; the outlines are not smoothed otherwise.
    image = np.asarray(drawn(scene).reduce(_REDUCTION), dtype=np.float32) / 255
    image = weathered(stylised(image, scene.style, nuisance), scene.weather, nuisance)
    noise = nuisance.generator(Stream.NOISE).standard_normal(image.shape, dtype=np.float32)
    return np.asarray(np.rint(255 * np.clip(image + _NOISE * noise, 0.0, 1.0)), dtype=np.uint8)


def drawn(scene: Scene) -> Image.Image:
    """Draw a scene as an RGB image of 256 x 256, before style, weather and noise."""
    nuisance = nuisance_of(scene.nuisance)
    canvas = background(scene.background, nuisance)
    if scene.companion != "none":
        COMPANIONS[scene.companion](_companion_brush(ImageDraw.Draw(canvas), nuisance))
    _draw_object(ImageDraw.Draw(canvas), scene, nuisance)
    return canvas


def object_mask(scene: Scene) -> np.ndarray:
    """Return the share of each pixel that the object covers, float32 [64, 64] in 0..1, before style."""
    nuisance = nuisance_of(scene.nuisance)
    painted, bare = Image.new("RGB", (SIDE, SIDE), "black"), Image.new("RGB", (SIDE, SIDE), "white")
    for image in (painted, bare):
        _draw_object(ImageDraw.Draw(image), scene, nuisance)
    same = (np.asarray(painted) == np.asarray(bare)).all(axis=2)
    return np.asarray(Image.fromarray(same.astype(np.uint8) * 255).reduce(_REDUCTION), dtype=np.float32) / 255


def _draw_object(canvas: ImageDraw.ImageDraw, scene: Scene, nuisance: Nuisance) -> None:
    close = scene.object_class == "boat" and scene.kind == "special"
    # The object leaves the companion's side free even without a companion, so that adding one moves nothing;
    # a close-up leaves the frame on the other side.
    x = 32.0 - nuisance.companion_side * (16.0 if close else 8.0) + nuisance.place[0]
    y = 35.0 + nuisance.place[1]
    scale = _OBJECT_HALF * nuisance.size * (_CLOSE_UP if close else 1.0)
    brush = Brush(
        canvas,
        centre=(_REDUCTION * x, _REDUCTION * y),
        scale=_REDUCTION * scale,
        angle=nuisance.angle,
        flip=nuisance.flip,
    )
    OBJECTS[scene.object_class](brush, paint(scene.colour, nuisance.object_palette), scene.kind == "special")


def _companion_brush(canvas: ImageDraw.ImageDraw, nuisance: Nuisance) -> Brush:
    x = 32.0 + nuisance.companion_side * (22.0 + nuisance.companion_jitter[0])
    y = 46.5 + nuisance.companion_jitter[1]
    centre = (_REDUCTION * x, _REDUCTION * y)
    return Brush(canvas, centre=centre, scale=_REDUCTION * _COMPANION_HALF, flip=nuisance.companion_flip)
