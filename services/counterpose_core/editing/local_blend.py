"""Local blend: confine an edit to the region its words attend to (Hertz et al. 2022, section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate, max_pool2d

from counterpose_core.editing.prompt_alignment import Alignment

THRESHOLD = 0.3
"""Fraction of the strongest attention above which a position belongs to the edit, as published."""
START_FRACTION = 0.2
"""Fraction of the steps before the first blend, as published: earlier maps are too diffuse."""


@dataclass(frozen=True)
class BlendWords:
    """Masks (L,) of the changed tokens: those removed from the source caption, those added to the target."""

    source: Tensor
    target: Tensor

    @classmethod
    def of(cls, alignment: Alignment, length: int) -> BlendWords:
        """Return the masks of a pair of captions.

        Args:
            alignment: the alignment of the two captions' tokens.
            length: the number L of tokens that the text encoder reads.
        """
        return cls(_marks(alignment.removed, length), _marks(alignment.added, length))


def _marks(positions: Sequence[int], length: int) -> Tensor:
    marks = torch.zeros(length, dtype=torch.float64)
    marks[list(positions)] = 1.0
    return marks


def word_heat(maps: Tensor, marks: Tensor) -> Tensor:
    """Return the attention (side, side) to the marked tokens, from maps (queries, L) of a square image."""
    side = round(maps.shape[0] ** 0.5)
    return (maps @ marks.to(maps)).reshape(side, side)


def heat_mask(heat: Tensor, size: tuple[int, int]) -> Tensor:
    """Return the mask (h, w) of 0 and 1 for ``heat`` (side, side); heat of zeros gives an empty mask."""
    # As published: the maximum over neighbours closes gaps between the few positions that attend to a word,
    # and nearest-neighbour up-sampling keeps the mask binary; soft edges would mix the latents of two images.
    pooled = max_pool2d(heat[None, None], kernel_size=3, stride=1, padding=1)
    grown = interpolate(pooled, size=size, mode="nearest")[0, 0]
    strongest = grown.max()
    # The threshold is relative to the peak, because longer captions have lower maps everywhere.
    return ((grown > THRESHOLD * strongest) & (strongest > 0)).to(heat)


def blend(source: Tensor, target: Tensor, heats: Tensor) -> Tensor:
    """Return ``target`` (C, H, W) where either of ``heats`` (2, side, side) is strong, ``source`` elsewhere.

    Outside the mask the result equals the source bit for bit.
    """
    size = (target.shape[-2], target.shape[-1])
    mask = torch.maximum(heat_mask(heats[0], size), heat_mask(heats[1], size))
    # Selected, not multiplied by the mask: a product would round the values that must stay unchanged.
    return torch.where(mask.bool(), target, source)
