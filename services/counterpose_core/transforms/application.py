"""Carrying out an operation of the table on an image."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from counterpose_core.errors import InvalidRequest
from counterpose_core.transforms import (
    backgrounds,
    blur,
    camera,
    digital,
    geometry,
    marks,
    noise,
    occlusion,
    optics,
    weather,
)
from counterpose_core.transforms.arrays import INSIDE, Mask, Matte, Pixels
from counterpose_core.transforms.table import Operation

Effect = Callable[..., Pixels]
"""Takes pixels, the numbers of a level by name, and what the operation says it needs."""

EFFECTS: Mapping[str, Effect] = MappingProxyType(
    {
        "gaussian-noise": noise.gaussian_noise,
        "shot-noise": noise.shot_noise,
        "impulse-noise": noise.impulse_noise,
        "speckle-noise": noise.speckle_noise,
        "defocus-blur": blur.defocus_blur,
        "glass-blur": blur.glass_blur,
        "motion-blur": blur.motion_blur,
        "zoom-blur": blur.zoom_blur,
        "gaussian-blur": blur.gaussian_blur,
        "snow": weather.snow,
        "frost": weather.frost,
        "fog": weather.fog,
        "spatter": weather.spatter,
        "brightness": digital.brightness,
        "contrast": digital.contrast,
        "saturate": digital.saturate,
        "elastic-transform": digital.elastic_transform,
        "pixelate": digital.pixelate,
        "jpeg-compression": digital.jpeg,
        "darker": camera.brightness,
        "brighter": camera.brightness,
        "underexposure": camera.exposure,
        "overexposure": camera.exposure,
        "low-contrast": camera.contrast,
        "high-contrast": camera.contrast,
        "warm-light": camera.white_balance,
        "cold-light": camera.white_balance,
        "low-saturation": camera.saturation,
        "high-saturation": camera.saturation,
        "greyscale": camera.saturation,
        "hue-shift": camera.hue,
        "sharpening": camera.sharpening,
        "low-resolution": camera.resolution,
        "jpeg-quality": digital.jpeg,
        "iso-noise": camera.iso_noise,
        "barrel-distortion": optics.radial_distortion,
        "pincushion-distortion": optics.radial_distortion,
        "jitter": optics.jitter,
        "turbulence": optics.turbulence,
        "haze": optics.haze,
        "lens-drops": optics.drops,
        "rotation": geometry.rotation,
        "upside-down": geometry.upside_down,
        "flip-horizontal": geometry.flip_horizontal,
        "flip-vertical": geometry.flip_vertical,
        "shrinking": geometry.shrinking,
        "crop": geometry.crop,
        "translation": geometry.translation,
        "perspective": geometry.perspective,
        "occlusion": occlusion.random_patch,
        "occlusion-centre": occlusion.patch,
        "occlusion-top": occlusion.patch,
        "occlusion-bottom": occlusion.patch,
        "occlusion-left": occlusion.patch,
        "occlusion-right": occlusion.patch,
        "occlusion-object": occlusion.object_patch,
        "text": marks.text,
        "watermark": marks.watermark,
        "border": marks.border,
        "date-stamp": marks.date_stamp,
        "background-grey": backgrounds.plain,
        "background-black": backgrounds.plain,
        "background-white": backgrounds.plain,
        "background-colour": backgrounds.coloured,
        "background-blur": backgrounds.blurred,
        "background-photograph": backgrounds.photograph,
        "background-same-class": backgrounds.photograph,
        "background-other-class": backgrounds.photograph,
        "background-mirrored": backgrounds.mirrored,
    }
)
"""What carries out each operation of the table."""


def apply(
    pixels: Pixels,
    operation: Operation,
    level: int,
    generator: np.random.Generator | None = None,
    mask: Mask | Matte | None = None,
    other: Pixels | None = None,
) -> Pixels:
    """Return a copy of the image with an operation at a level applied.

    Args:
        pixels: the image, uint8 (H, W, 3).
        operation: one of the table.
        level: from 1 to the operation's last.
        generator: what random operations draw from, as from `generator_of`.
        mask: for operations that need it, true where the object is, bool (H, W), or the object's share of
            each pixel, uint8 (H, W).
        other: another photograph of any size, for operations that need it.

    Raises:
        InvalidRequest: the image, the mask or the other photograph is missing or not as the operation
            needs it, or there is no such level.
    """
    _check_image(pixels, "image")
    numbers = operation.at(level)
    height, width = pixels.shape[:2]
    if min(height, width) < operation.smallest_side:
        raise InvalidRequest(
            f"{operation.name!r} needs an image of at least {operation.smallest_side} pixels on each side; "
            f"this one has {width} x {height}"
        )
    needs: dict[str, Any] = {}
    if operation.is_random:
        if generator is None:
            raise InvalidRequest(f"{operation.name!r} is random; give a generator to draw from")
        needs["generator"] = generator
    if operation.needs_mask:
        needs["mask"] = _checked_mask(mask, operation, (height, width))
    if operation.needs_other:
        if other is None:
            raise InvalidRequest(f"{operation.name!r} needs another photograph; give one")
        _check_image(other, "other photograph")
        needs["other"] = other
    changed = EFFECTS[operation.name](pixels, **numbers, **needs)
    return np.array(changed, order="C")


def generator_of(digest: str, operation: str, level: int, seed: int) -> np.random.Generator:
    """Return the generator of one transformed image, by its source's digest, operation, level and seed."""
    text = json.dumps([digest, operation, level, seed], separators=(",", ":"))
    number = int(hashlib.sha256(text.encode()).hexdigest(), 16)
    # By name: NumPy may change what its default generator is.
    return np.random.Generator(np.random.PCG64(number))


def _check_image(pixels: Pixels, what: str) -> None:
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.size == 0:
        raise InvalidRequest(
            f"the {what} is {pixels.dtype} of shape {pixels.shape}; give uint8 red-green-blue (H, W, 3)"
        )


def _checked_mask(mask: Mask | Matte | None, row: Operation, shape: tuple[int, int]) -> Mask | Matte:
    """Return the mask of an image of this shape: whole for backgrounds, else where the object is."""
    if mask is None:
        raise InvalidRequest(f"{row.name!r} needs a mask of the object; give one, or leave the operation out")
    if mask.dtype not in (np.bool_, np.uint8):
        raise InvalidRequest(
            f"the mask is {mask.dtype}; give bool, true where the object is, or its share as uint8"
        )
    if mask.shape != shape:
        raise InvalidRequest(
            f"the mask has shape {mask.shape}, but the image {shape}; give the image's own mask"
        )
    inside: Mask = mask >= (INSIDE if mask.dtype == np.uint8 else True)
    if not inside.any() or inside.all():
        fault = "full: no background" if inside.any() else "empty: no object"
        raise InvalidRequest(f"the mask is {fault} is left for {row.name!r}; give the outline of the object")
    return mask if row.family == "background" else inside
