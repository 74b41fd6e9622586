"""The encoding of images to latents, and their decoding."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from counterpose_core.errors import InvalidRequest
from counterpose_core.images.codecs import Pixels
from counterpose_core.transforms.arrays import Mask
from counterpose_core.types import Decoder

if TYPE_CHECKING:
    from diffusers import AutoencoderKL, AutoencoderTiny

T = TypeVar("T")

EXACT_PSNR_DB = 100.0
"""The value for two equal images, whose ratio is infinite."""


def centre_crop(pixels: Pixels, resolution: int) -> Pixels:
    """Crop the central square and resize it to ``resolution`` pixels per side (bicubic, anti-aliased)."""
    height, width = pixels.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = pixels[top : top + side, left : left + side]
    if side == resolution:
        return square
    resized = Image.fromarray(square).resize((resolution, resolution), Image.Resampling.BICUBIC)
    return np.asarray(resized, dtype=np.uint8)


def psnr_db(first: Pixels, second: Pixels) -> float:
    """Return the peak signal-to-noise ratio of two images of the same shape, at most 100 dB."""
    error = float(np.mean((first.astype(np.float64) - second.astype(np.float64)) ** 2))
    return EXACT_PSNR_DB if error == 0 else min(EXACT_PSNR_DB, 10 * math.log10(255**2 / error))


class LatentCodec:
    """The pipeline's autoencoder, ``batch`` images per pass, and a small one for previews, if any."""

    def __init__(
        self, vae: AutoencoderKL, preview: AutoencoderTiny | None = None, *, resolution: int, batch: int
    ) -> None:
        self._vae = vae.eval().requires_grad_(requires_grad=False)
        self._preview = None if preview is None else preview.eval().requires_grad_(requires_grad=False)
        self._batch = batch
        # Calls decode between the steps of others; two batches at once would need memory for both.
        self._one_batch = Lock()
        self._scale = float(vae.config.scaling_factor)
        self.resolution = resolution

    def require_preview(self) -> AutoencoderTiny:
        """Return the small autoencoder.

        Raises:
            InvalidRequest: the suite has none.
        """
        if self._preview is None:
            raise InvalidRequest("the suite has no preview_decoder for decoder 'preview'; use 'full'")
        return self._preview

    @torch.no_grad()
    def encode(self, images: Sequence[Pixels], *, blank: Sequence[Mask] = ()) -> Tensor:
        """Encode square images to their mean latents (N, C, h, w), without sampling.

        What is true in ``blank`` (N, H, W) is grey, as inpainting checkpoints are told what may change.
        """
        masks = self._batches(blank) if blank else itertools.repeat(())
        return torch.cat([self._encode(*each) for each in zip(self._batches(images), masks, strict=False)])

    def _encode(self, images: Sequence[Pixels], blank: Sequence[Mask]) -> Tensor:
        with self._one_batch:
            return self._encoded(images, blank)

    def _encoded(self, images: Sequence[Pixels], blank: Sequence[Mask]) -> Tensor:
        stacked = torch.from_numpy(np.stack(images)).to(self._vae.device, self._vae.dtype)
        normed = stacked.permute(0, 3, 1, 2) / 127.5 - 1.0
        if blank:
            # Not by levels: none is the middle of 256.
            normed = normed.masked_fill(torch.from_numpy(np.stack(blank))[:, None].to(normed.device), 0.0)
        mean: Tensor = self._vae.encode(normed).latent_dist.mean
        return mean * self._scale

    @torch.no_grad()
    def decode(self, latents: Tensor, decoder: Decoder = "full") -> list[Pixels]:
        """Decode latents (N, C, h, w) to images.

        Raises:
            InvalidRequest: previews are requested, but no preview decoder is loaded.
        """
        batches = latents.split(self._batch)
        return [image for batch in batches for image in self._decode(batch, decoder)]

    def _decode(self, latents: Tensor, decoder: Decoder) -> list[Pixels]:
        with self._one_batch:
            decoded = self._previewed(latents) if decoder == "preview" else self._decoded(latents)
            # A cast would truncate, and the image would be half a level too dark on average.
            levels = (decoded.clamp(-1, 1) * 127.5 + 127.5).round().to(torch.uint8)
            return list(levels.permute(0, 2, 3, 1).cpu().numpy())

    def _decoded(self, latents: Tensor) -> Tensor:
        decoded: Tensor = self._vae.decode(latents.to(self._vae.dtype) / self._scale).sample
        return decoded

    def _previewed(self, latents: Tensor) -> Tensor:
        preview = self.require_preview()
        # Unlike the autoencoder, it takes latents in the denoiser's scale.
        scale = float(preview.config.scaling_factor)
        decoded: Tensor = preview.decode(latents.to(preview.dtype) / scale).sample
        return decoded

    def _batches(self, images: Sequence[T]) -> list[Sequence[T]]:
        return [images[start : start + self._batch] for start in range(0, len(images), self._batch)]
