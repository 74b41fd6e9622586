"""Two views of one image: another place, another background, other colours; nothing names what it shows."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from counterpose_miniature.training.degradation import degrade, mirrored

_LEAST_SIDE = 0.5
_MOVED, _GREY = 0.8, 0.3


def two_views(images: Tensor, masks: Tensor, generator: torch.Generator) -> Tensor:
    """Return views [2N, 3, H, W], the second ones after the first.

    In most of them the object stands before the background of another image of the batch: two views
    that share one are told apart by it, and not by the object (Ryali et al. 2021).

    Args:
        images: float [N, 3, H, W] in 0..1.
        masks: where the object is, float [N, 1, H, W] in 0..1.
        generator: draws all of it.
    """
    # What is half an image away stands in for the object.
    filled = (1 - masks) * images + masks * images.roll([side // 2 for side in images.shape[2:]], (2, 3))
    views = [_view(images, masks, filled, generator) for _ in range(2)]
    return degrade(torch.cat(views), generator).contiguous(memory_format=torch.channels_last)


def _view(images: Tensor, masks: Tensor, filled: Tensor, generator: torch.Generator) -> Tensor:
    placed = _cropped(mirrored(torch.cat([images, masks], 1), generator), generator)
    pixels, mask = placed[:, :3], placed[:, 3:]
    behind = mirrored(filled[torch.randperm(len(filled), generator=generator)], generator)
    moved = torch.rand(len(images), 1, 1, 1, generator=generator) < _MOVED
    return _recoloured(torch.where(moved, mask * pixels + (1 - mask) * behind, pixels), generator)


def _cropped(images: Tensor, generator: torch.Generator) -> Tensor:
    """Cut a square of half the side or more at a random place, and stretch it over the image."""
    count = len(images)
    side = _LEAST_SIDE + (1 - _LEAST_SIDE) * torch.rand(count, 1, generator=generator)
    place = (1 - side) * (2 * torch.rand(count, 2, generator=generator) - 1)
    cut = torch.cat([torch.diag_embed(side.expand(-1, 2)), place[:, :, None]], 2)
    grid = F.affine_grid(cut, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False, padding_mode="reflection")


def _recoloured(images: Tensor, generator: torch.Generator) -> Tensor:
    """Mix the channels anew, or to grey, and change contrast and tint: objects come in any colour."""
    count, normal = len(images), _normal(generator)
    order = torch.rand(count, 3, generator=generator).argsort(1)
    mixed = torch.eye(3)[order] + 0.3 * normal(count, 3, 3)
    grey = torch.rand(count, 1, 1, generator=generator) < _GREY
    mixed = torch.where(grey, mixed.mean(1, keepdim=True).expand(-1, 3, -1), mixed)
    mixed = mixed / mixed.abs().sum(2, keepdim=True).clamp(min=0.5)
    turned = torch.einsum("nij,njhw->nihw", mixed, images - 0.5)
    stretched = torch.exp(0.3 * normal(count, 1, 1, 1)) * turned
    return (0.5 + stretched + 0.15 * normal(count, 3, 1, 1)).clamp(0, 1)


def _normal(generator: torch.Generator) -> Callable[..., Tensor]:
    return lambda *shape: torch.randn(*shape, generator=generator)
