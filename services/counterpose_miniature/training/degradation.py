"""Random blur, rescaling, noise, tint and block compression, so that models tolerate generated images."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

# The share of a batch that gets each degradation; .5 x .75 x .8 x .5 = 15 % get noise only.
_BLURRED, _RESCALED, _COMPRESSED, _TINTED = 0.5, 0.25, 0.2, 0.5
_BLOCK = 8


def degrade(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return images, float [N, 3, H, W] in 0..1, each degraded separately; H and W are multiples of 8."""
    count = len(images)

    def some(share: float) -> Tensor:
        return torch.rand(count, generator=generator) < share

    images = images.clone()
    for share, change in ((_RESCALED, _rescaled), (_BLURRED, _blurred), (_TINTED, _tinted)):
        chosen = some(share)
        if chosen.any():
            images[chosen] = change(images[chosen], generator)
    chosen = some(_COMPRESSED)
    if chosen.any():
        images[chosen] = _compressed(images[chosen], _uniform(generator, 0.03, 0.12))
    strength = torch.rand(count, 1, 1, 1, generator=generator).square() * 0.06
    noise = torch.randn(images.shape, generator=generator)
    return (images + strength * noise).clamp(0.0, 1.0)


def mirrored(images: Tensor, generator: torch.Generator) -> Tensor:
    """Flip a random half of the images horizontally, which changes no attribute of a scene."""
    flips = torch.rand(len(images), 1, 1, 1, generator=generator) < 0.5
    return torch.where(flips, images.flip(3), images)


def _uniform(generator: torch.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand((), generator=generator))


def _blurred(images: Tensor, generator: torch.Generator) -> Tensor:
    sigma = _uniform(generator, 0.5, 1.3)
    line = torch.exp(-(torch.arange(-3, 4) ** 2) / (2 * sigma**2))
    line = (line / line.sum()).expand(3, 1, 1, 7)
    soft = F.conv2d(F.pad(images, (3, 3, 0, 0), mode="replicate"), line, groups=3)
    soft = F.conv2d(F.pad(soft, (0, 0, 3, 3), mode="replicate"), line.transpose(2, 3), groups=3)
    # Blended with the sharp image, because an autoencoder loses fine detail only partly.
    blend = torch.rand(len(images), 1, 1, 1, generator=generator)
    return blend * soft + (1 - blend) * images


def _rescaled(images: Tensor, generator: torch.Generator) -> Tensor:
    height, width = images.shape[2:]
    scale = _uniform(generator, 0.4, 0.75)
    small = F.interpolate(
        images, (round(height * scale), round(width * scale)), mode="bilinear", antialias=True
    )
    return F.interpolate(small, (height, width), mode="bicubic").clamp(0.0, 1.0)


def _tinted(images: Tensor, generator: torch.Generator) -> Tensor:
    # Adds a coarse random field, because a generator changes the colour of large areas slightly.
    field = 0.03 * torch.randn(len(images), 3, 4, 4, generator=generator)
    field = F.interpolate(field, images.shape[2:], mode="bilinear")
    contrast = 1 + 0.08 * torch.randn(len(images), 1, 1, 1, generator=generator)
    return ((images - 0.5) * contrast + 0.5 + field).clamp(0.0, 1.0)


def _compressed(images: Tensor, step: float) -> Tensor:
    """Quantise the cosine coefficients of 8 x 8 blocks, coarser for higher frequencies, as JPEG does."""
    count, channels, height, width = images.shape
    basis = _cosines()
    blocks = images.reshape(count, channels, height // _BLOCK, _BLOCK, width // _BLOCK, _BLOCK).transpose(
        3, 4
    )
    order = torch.arange(_BLOCK)
    steps = step * (1 + 0.5 * (order[:, None] + order[None, :]))
    coefficients = basis @ blocks @ basis.T
    rounded = (coefficients / steps).round() * steps
    return (basis.T @ rounded @ basis).transpose(3, 4).reshape(images.shape).clamp(0.0, 1.0)


def _cosines() -> Tensor:
    order = torch.arange(_BLOCK, dtype=torch.float32)
    basis = torch.cos(math.pi * (2 * order[None, :] + 1) * order[:, None] / (2 * _BLOCK))
    scale = torch.full((_BLOCK, 1), math.sqrt(2 / _BLOCK))
    scale[0] = math.sqrt(1 / _BLOCK)
    return scale * basis
