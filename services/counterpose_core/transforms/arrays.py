"""Images as arrays: levels to floats and back, random patterns of a stated size, convolution and sampling."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy
from PIL import Image

from counterpose_core.transforms.table import PUBLISHED_SIDE

Pixels = npt.NDArray[np.uint8]
"""An image as uint8 of shape (H, W, 3), red-green-blue."""
Mask = npt.NDArray[np.bool_]
"""Shape (H, W): true where the object is."""
Matte = npt.NDArray[np.uint8]
"""Shape (H, W): the object's share of each pixel, 0 to 255; its edge is the object's own."""
Floats = npt.NDArray[np.floating[Any]]
"""One or three channels, (H, W) or (H, W, 3); as an image from 0 to 1."""

INSIDE = 128
"""The least share of the object in a pixel of its outline, as `counterpose_core.images.masks` reads files."""
GREY = 128
"""What a place without image is filled with: neither dark nor light."""

LEVEL_ROUNDING = 1e-3
"""Levels by which float32 may miss a whole level."""


def as_floats(pixels: Pixels) -> Floats:
    """Return the image from 0 to 1."""
    return pixels.astype(np.float32) / np.float32(255)


def as_pixels(image: Floats) -> Pixels:
    """Return the nearest levels of an image from 0 to 1; what lies outside is cut off."""
    levels: Pixels = np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8)
    return levels


def truncated(image: Floats) -> Pixels:
    """Return the levels at or below an image from 0 to 1, as the published corruptions do; cut off as there.

    Half a level darker on average: rounded, the results would not have the published distribution.
    """
    # What is a whole level up to rounding stays this level on every processor.
    levels: Pixels = np.floor(np.clip(image, 0, 1) * 255 + LEVEL_ROUNDING).astype(np.uint8)
    return levels


def scale(pixels: npt.NDArray[Any]) -> float:
    """Return by how much lengths stated for `PUBLISHED_SIDE` grow for this image."""
    height, width = pixels.shape[:2]
    return float(max(height, width) / PUBLISHED_SIDE)


def grid(pixels: npt.NDArray[Any]) -> tuple[int, int]:
    """Return height and width on which patterns are drawn: of the image's form, at `PUBLISHED_SIDE`.

    A pattern drawn here and enlarged to the image looks as published to a network that reduces the image.
    """
    height, width = (max(1, round(side / scale(pixels))) for side in pixels.shape[:2])
    return height, width


def nearest(pattern: npt.NDArray[Any], pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a pattern in the size of an image, its grains unblurred."""
    rows, columns = (
        np.arange(side) * length // side
        for side, length in zip(pixels.shape[:2], pattern.shape[:2], strict=True)
    )
    whole: npt.NDArray[Any] = pattern[rows[:, None], columns]
    return whole


def enlarged(pattern: Floats, pixels: npt.NDArray[Any]) -> Floats:
    """Return a pattern (h, w) in the size of an image, smoothly."""
    height, width = pixels.shape[:2]
    if pattern.shape == (height, width):
        return pattern
    return np.asarray(Image.fromarray(pattern).resize((width, height), Image.Resampling.BILINEAR))


def luminance(image: Floats) -> Floats:
    """Return an image's brightness, (H, W), by the weights of ITU-R 601."""
    return image @ np.array([0.299, 0.587, 0.114], np.float32)


def gaussian(sigma: float, cut: float = 4.0) -> Floats:
    """Return the weights of a Gaussian, up to ``cut`` times ``sigma`` from its middle."""
    reach = int(cut * sigma + 0.5)
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / max(sigma, 1e-6)) ** 2)
    normalised: Floats = (weights / weights.sum()).astype(np.float32)
    return normalised


def convolved(
    image: Floats, kernel: Floats, border: Literal["edge", "reflect", "symmetric"] = "edge"
) -> Floats:
    """Return an image convolved with a kernel of odd sides, its border as `numpy.pad` continues it.

    By the Fourier transform: kernels grow with the image, and a direct sum over them takes seconds.
    """
    down, across = kernel.shape[0] // 2, kernel.shape[1] // 2
    rest = ((0, 0),) * (image.ndim - 2)
    padded = np.pad(image, ((down, down), (across, across), *rest), mode=border)
    size = [scipy.fft.next_fast_len(side, real=True) for side in padded.shape[:2]]
    spectrum = scipy.fft.rfft2(padded, size, axes=(0, 1))
    factor = scipy.fft.rfft2(kernel, size)
    product = spectrum * factor.reshape(*factor.shape, *(1,) * len(rest))
    whole = scipy.fft.irfft2(product, size, axes=(0, 1))
    inside: Floats = whole[2 * down : padded.shape[0], 2 * across : padded.shape[1]]
    return inside


def smoothed(image: Floats, down: float, across: float | None = None) -> Floats:
    """Return an image blurred by a Gaussian of these standard deviations in pixels; one counts for both."""
    return convolved(image, np.outer(gaussian(down), gaussian(down if across is None else across)))


def sampled(image: Floats, rows: Floats, columns: Floats) -> Floats:
    """Return the image at these places (H, W) of it, between pixels linearly, reflected at its border."""
    channels = [
        scipy.ndimage.map_coordinates(channel, (rows, columns), order=1, mode="reflect")
        for channel in np.moveaxis(image, -1, 0)
    ]
    return np.stack(channels, axis=-1)


def places(pixels: npt.NDArray[Any]) -> tuple[Floats, Floats]:
    """Return the row and the column of each pixel, (H, W) each."""
    rows, columns = (np.arange(side, dtype=np.float32) for side in pixels.shape[:2])
    down, across = np.meshgrid(rows, columns, indexing="ij")
    return down, across
