"""What the UNet of Stable Diffusion XL takes beside the words: a pooled embedding and sizes of the image.

The core knows one tensor of text (B, L, D). For SDXL it has one more row than the prompt has tokens, with
the pooled embedding at its end, so that both conditions are inverted, edited, batched and cached together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

SIZES = 6
"""Original height and width, top and left of the crop, target height and width."""
ADDED = "text_time"
"""diffusers' name of SDXL's added conditions, the only ones that are supported."""


def with_pooled(words: Tensor, pooled: Tensor) -> Tensor:
    """Append pooled embeddings (B, P) to embedded words (B, L, D) as the end of one more row, P <= D."""
    row = torch.nn.functional.pad(pooled, (words.shape[-1] - pooled.shape[-1], 0))
    return torch.cat([words, row[:, None]], dim=1)


@dataclass(frozen=True)
class AddedConditions:
    """The conditions of one UNet: the width of its pooled embedding, and the sizes that it is told.

    Every image is told as never resized nor cropped (micro-conditioning; Podell et al. 2023, section 2.2): it
    is a square of ``side`` pixels in both halves of a guided step, as diffusers does by default.
    """

    pooled_width: int
    side: int

    @classmethod
    def of(cls, config: Mapping[str, Any], side: int) -> AddedConditions | None:
        """Read them from a UNet's configuration; None if it takes the words alone."""
        if config.get("addition_embed_type") != ADDED:
            return None
        sizes = SIZES * int(config["addition_time_embed_dim"])
        return cls(int(config["projection_class_embeddings_input_dim"]) - sizes, side)

    def split(self, text: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Take text (B, L + 1, D) apart into the words (B, L, D) and the UNet's added conditions."""
        told = [self.side, self.side, 0, 0, self.side, self.side]
        sizes = torch.tensor(told, dtype=torch.float32, device=text.device).expand(text.shape[0], -1)
        return text[:, :-1], {"text_embeds": text[:, -1, -self.pooled_width :], "time_ids": sizes}
