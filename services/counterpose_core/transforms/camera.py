"""What a camera does: light, exposure, colour, sharpness, resolution and the sensor's noise."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter

from counterpose_core.transforms.arrays import Floats, Pixels, as_floats, as_pixels, nearest, scale
from counterpose_core.transforms.digital import resized
from counterpose_core.transforms.noise import reduced
from counterpose_core.transforms.table import PUBLISHED_SIDE

FULL_WELL = 20_000
"""Electrons that a pixel of a small sensor holds at ISO 100."""
READ_NOISE = 3.0
"""Electrons that reading adds, as a standard deviation."""


def brightness(pixels: Pixels, *, factor: float) -> Pixels:
    """Multiply all levels (Pillow's Brightness)."""
    return np.asarray(ImageEnhance.Brightness(Image.fromarray(pixels)).enhance(factor))


def contrast(pixels: Pixels, *, factor: float) -> Pixels:
    """Draw all levels towards the mean grey, or away from it (Pillow's Contrast)."""
    return np.asarray(ImageEnhance.Contrast(Image.fromarray(pixels)).enhance(factor))


def saturation(pixels: Pixels, *, factor: float) -> Pixels:
    """Draw all colours towards grey of the same brightness, or away from it (Pillow's Color)."""
    return np.asarray(ImageEnhance.Color(Image.fromarray(pixels)).enhance(factor))


def sharpening(pixels: Pixels, *, percent: float, radius: float) -> Pixels:
    """Sharpen edges until they have halos (Pillow's UnsharpMask)."""
    mask = ImageFilter.UnsharpMask(radius * scale(pixels), int(percent), threshold=0)
    return np.asarray(Image.fromarray(pixels).filter(mask))


def hue(pixels: Pixels, *, degrees: float) -> Pixels:
    """Turn the hue; value and saturation of the HSV model stay."""
    bands = np.array(Image.fromarray(pixels).convert("HSV"))
    # Eight bits are one turn, and overflow as angles do.
    bands[..., 0] += np.uint8(round(degrees / 360 * 256))
    return np.asarray(Image.fromarray(bands, mode="HSV").convert("RGB"))


def exposure(pixels: Pixels, *, stops: float) -> Pixels:
    """Multiply the light by 2 ** stops; what is too bright is cut off."""
    return _lit(pixels, (2.0**stops,) * 3)


def white_balance(pixels: Pixels, *, red: float, blue: float) -> Pixels:
    """Multiply the light of red and blue, as a camera that takes one lamp for another."""
    return _lit(pixels, (red, 1.0, blue))


def resolution(pixels: Pixels, *, side: float) -> Pixels:
    """Reduce to this longest side and enlarge again; below 224 pixels, to as large a share of the image."""
    factor = side / PUBLISHED_SIDE / max(scale(pixels), 1.0)
    return resized(pixels, factor, Image.Resampling.LANCZOS, Image.Resampling.BICUBIC)


def iso_noise(pixels: Pixels, *, iso: float, generator: np.random.Generator) -> Pixels:
    """Add the noise of photons and of reading at this sensitivity, in linear light."""
    electrons = FULL_WELL * 100 / iso
    levels = as_floats(reduced(pixels))
    light = _linear(levels)
    deviation = np.sqrt(light * electrons + READ_NOISE**2) / np.float32(electrons)
    grains = generator.standard_normal(light.shape, dtype=np.float32)
    noise = _encoded(light + deviation * grains) - levels
    return as_pixels(as_floats(pixels) + nearest(noise, pixels))


def _lit(pixels: Pixels, factors: tuple[float, float, float]) -> Pixels:
    # A table of 256 levels is all that an image of 8 bits needs.
    levels = _linear(np.arange(256, dtype=np.float32) / 255)
    tables = [as_pixels(_encoded(levels * np.float32(factor))) for factor in factors]
    return np.stack([table[pixels[..., channel]] for channel, table in enumerate(tables)], axis=-1)


def _linear(image: Floats) -> Floats:
    """Return the light of sRGB levels from 0 to 1 (IEC 61966-2-1)."""
    return np.where(image <= 0.04045, image / 12.92, ((image + 0.055) / 1.055) ** 2.4).astype(np.float32)


def _encoded(light: Floats) -> Floats:
    """Return the sRGB levels of light; what exceeds 1 stays above 1."""
    light = np.maximum(light, 0)
    return np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055).astype(np.float32)
