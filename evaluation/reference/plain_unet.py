"""A diffusers UNet as the reference runs it: every attention map explicit, every weight with a gradient."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from counterpose_core.editing.denoiser import AttentionControl, AttentionSite

if TYPE_CHECKING:
    from diffusers import UNet2DConditionModel
    from diffusers.models.attention_processor import Attention


class PlainUNet:
    """Passes each attention layer to the control of the current call; without one, maps stay as they are."""

    def __init__(self, unet: UNet2DConditionModel) -> None:
        self._unet: Any = unet.requires_grad_(requires_grad=True)
        self._control: AttentionControl | None = None
        processors = {}
        for name in unet.attn_processors:
            site = AttentionSite(name, is_cross=".attn2." in name)
            processors[name] = self._processor(site)
        unet.set_attn_processor(processors)

    def __call__(
        self, latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        """Predict for latents (B, C, H, W) at timestep (B,) given text (B, L, D)."""
        self._control = control
        output: Tensor = self._unet(latents, timestep, text).sample
        return output

    def _processor(self, site: AttentionSite) -> PlainProcessor:
        return PlainProcessor(self, site)

    def attend(self, site: AttentionSite, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attend as the control decides."""
        if self._control is not None:
            return self._control.attend(site, query, key, value)
        maps = torch.softmax(query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]), dim=-1)
        return maps @ value


class PlainProcessor:
    """Projects into heads and back."""

    def __init__(self, owner: PlainUNet, site: AttentionSite) -> None:
        self._owner, self._site = owner, site

    def __call__(
        self,
        attn: Attention,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        """Attend over (B, positions, channels), in cross-attention to text (B, L, D)."""
        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states

        def heads(projected: Tensor) -> Tensor:
            batch, positions, width = projected.shape
            return projected.reshape(batch, positions, attn.heads, width // attn.heads).transpose(1, 2)

        attended = self._owner.attend(
            self._site, heads(attn.to_q(hidden_states)), heads(attn.to_k(context)), heads(attn.to_v(context))
        )
        output: Tensor = attn.to_out[0](attended.transpose(1, 2).flatten(2))
        return output
