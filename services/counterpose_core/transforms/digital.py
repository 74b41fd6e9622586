"""Digital corruptions of ImageNet-C (Hendrycks & Dietterich 2019): light, colour, shape and coding."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from counterpose_core.transforms.arrays import (
    Floats,
    Pixels,
    as_floats,
    convolved,
    enlarged,
    gaussian,
    grid,
    places,
    sampled,
    scale,
    truncated,
)


def brightness(pixels: Pixels, *, added: float) -> Pixels:
    """Add to the value of the HSV model; hue and saturation stay."""
    image = as_floats(pixels)
    value = image.max(axis=-1, keepdims=True)
    lighter = np.minimum(value + added, 1)
    # Black has no hue, and becomes grey.
    ratio = np.divide(lighter, value, out=np.ones_like(value), where=value > 0)
    return truncated(np.where(value > 0, image * ratio, lighter))


def saturate(pixels: Pixels, *, factor: float, added: float) -> Pixels:
    """Multiply the saturation of the HSV model and add to it; hue and value stay."""
    image = as_floats(pixels)
    value = image.max(axis=-1, keepdims=True)
    chroma = value - image.min(axis=-1, keepdims=True)
    saturation = np.divide(chroma, value, out=np.zeros_like(value), where=value > 0)
    aim = np.clip(saturation * factor + added, 0, 1)
    # Grey has no hue: as in every library, the model takes it for red.
    away = np.where(chroma > 0, value - image, value * np.array([0, 1, 1], np.float32))
    ratio = np.divide(aim, saturation, out=np.array(aim), where=saturation > 0)
    return truncated(value - away * ratio)


def contrast(pixels: Pixels, *, factor: float) -> Pixels:
    """Draw each channel towards its mean."""
    image = as_floats(pixels)
    mean = image.mean(axis=(0, 1))
    return truncated((image - mean) * np.float32(factor) + mean)


def elastic_transform(pixels: Pixels, *, alpha: float, generator: np.random.Generator) -> Pixels:
    """Displace pixels by a smooth random field, as Michaelis et al. (2019) made it fit any size.

    They left out the random affine map before it: `geometry` has such maps.
    """
    rows, columns = places(pixels)
    down, across = elastic_field(pixels, alpha, generator)
    return truncated(sampled(as_floats(pixels), rows + down, columns + across))


def elastic_field(pixels: Pixels, alpha: float, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Return by how many pixels down and across each pixel's source lies from it."""
    shape = grid(pixels)
    # Shares of the side, by Michaelis et al.: 0.5 % is the largest displacement before smoothing by 1 %.
    largest, kernels = 0.005 * max(shape), [gaussian(0.01 * side, cut=3) for side in shape]
    field = generator.uniform(-largest, largest, (2, *shape)).astype(np.float32)
    down, across = (
        # As published: a border that repeats one value would make the field near it stronger.
        enlarged(convolved(layer, np.outer(*kernels), "symmetric") * np.float32(alpha), pixels)
        * np.float32(scale(pixels))
        for layer in field
    )
    return down, across


def pixelate(pixels: Pixels, *, share: float) -> Pixels:
    """Reduce by the mean of boxes to a share of the image, of 224 pixels where it has more, and enlarge."""
    return resized(pixels, share / max(scale(pixels), 1.0), Image.Resampling.BOX, Image.Resampling.BOX)


def resized(pixels: Pixels, factor: float, smaller: Image.Resampling, larger: Image.Resampling) -> Pixels:
    """Reduce an image by a factor and enlarge it to its size again."""
    height, width = pixels.shape[:2]
    # Cut off, as published, but a whole number that rounding missed is whole.
    size = max(1, int(width * factor + 1e-6)), max(1, int(height * factor + 1e-6))
    return np.asarray(Image.fromarray(pixels).resize(size, smaller).resize((width, height), larger))


def jpeg(pixels: Pixels, *, quality: float) -> Pixels:
    """Write as JPEG of this quality and read again."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=int(quality))
    with Image.open(buffer) as image:
        return np.asarray(image)
