"""Local blend: confine an edit to where its words look (Hertz et al. 2022, section 4; blended diffusion)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate, max_pool2d

from faultline_core.editing.prompt_alignment import Alignment

THRESHOLD = 0.3
"""Share of the strongest attention above which a place belongs to the edit, as published."""
START_FRACTION = 0.2
"""Share of the steps before the first blend: earlier maps are too vague, as published."""


@dataclass(frozen=True)
class BlendWords:
    """Which tokens an edit is about: those removed from the source caption, those added to the target's."""

    source: Tensor
    target: Tensor

    @classmethod
    def of(cls, alignment: Alignment, length: int) -> BlendWords:
        """Mark the changed tokens of a pair of captions in two masks (L,)."""
        return cls(_marks(alignment.removed, length), _marks(alignment.added, length))


def _marks(positions: Sequence[int], length: int) -> Tensor:
    marks = torch.zeros(length, dtype=torch.float64)
    marks[list(positions)] = 1.0
    return marks


def word_heat(maps: Tensor, marks: Tensor) -> Tensor:
    """Attention (side, side) that the marked tokens draw, from maps (queries, L) of a square image."""
    side = round(maps.shape[0] ** 0.5)
    return (maps @ marks.to(maps)).reshape(side, side)


def heat_mask(heat: Tensor, size: tuple[int, int]) -> Tensor:
    """Turn heat (side, side) into a mask (h, w) of 0 and 1; without any heat the mask is empty."""
    # As published: a maximum over neighbours closes the gaps between the few places a word looks at, and
    # up-sampling by the nearest keeps the mask hard; soft edges would mix two images' latents.
    pooled = max_pool2d(heat[None, None], kernel_size=3, stride=1, padding=1)
    grown = interpolate(pooled, size=size, mode="nearest")[0, 0]
    strongest = grown.max()
    # A share of the peak, as maps of longer captions are lower all over.
    return ((grown > THRESHOLD * strongest) & (strongest > 0)).to(heat)


def blend(source: Tensor, target: Tensor, heats: Tensor) -> Tensor:
    """Keep target latents (C, H, W) where either heat of (2, side, side) is strong, source latents elsewhere.

    Outside of the mask the result is the source, bit by bit.
    """
    size = (target.shape[-2], target.shape[-1])
    mask = torch.maximum(heat_mask(heats[0], size), heat_mask(heats[1], size))
    # Chosen, not multiplied by the mask: a product would round what is promised to stay.
    return torch.where(mask.bool(), target, source)
