"""What the UNet of an inpainting checkpoint takes beside the latents: a mask, and the latents of what stays.

They travel at the end of the text, as SDXL's pooled embedding does, so that they are batched and cached with
it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Inpainting:
    """The layout of one UNet's conditions.

    ``whole`` (C + 1, h, w) is the mask of an image of which all may change, and the latents of nothing;
    ``rows`` is the number L of rows of a text without conditions.
    """

    whole: Tensor
    rows: int

    def carried(self, text: Tensor, conditions: Tensor) -> Tensor:
        """Append conditions (N, C + 1, h, w) to text (N, L, D): as (N, L + k, D), filled up with zeros."""
        flat, width = conditions.flatten(1), text.shape[-1]
        padded = torch.nn.functional.pad(flat, (0, -flat.shape[1] % width)).to(text)
        return torch.cat([text, padded.unflatten(1, (-1, width))], dim=1)

    def split(self, text: Tensor) -> tuple[Tensor, Tensor]:
        """Take text apart into (N, L, D) and conditions (N, C + 1, h, w); `whole` where it carries none."""
        carried = text[:, self.rows :]
        if not carried.shape[1]:
            return text, self.whole.to(text).expand(len(text), *self.whole.shape)
        flat = carried.flatten(1)[:, : self.whole.numel()]
        return text[:, : self.rows], flat.unflatten(1, self.whole.shape)
