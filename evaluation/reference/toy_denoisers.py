"""Small models for the editing tests: a linear one, and one with real self- and cross-attention."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from counterpose_core.editing.denoiser import AttentionControl, AttentionSite

WIDTH, HEADS, LENGTH = 8, 2, 7


def linear(
    latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
) -> Tensor:
    """Noise that depends on latents, time and the mean of the text, linearly in each."""
    tint = text.mean(dim=(1, 2)) * (1 + timestep / 1000)
    return 0.3 * latents + tint[:, None, None, None]


class TinyAttention:
    """Self-attention then cross-attention over the latents' positions, in float64 and seeded."""

    def __init__(self, *, channels: int = 2, seed: int = 0, dtype: torch.dtype = torch.float64) -> None:
        drawing = torch.Generator().manual_seed(seed)

        def matrix(*shape: int) -> Tensor:
            drawn = torch.randn(*shape, generator=drawing, dtype=torch.float64)
            return drawn.to(dtype).div(shape[0] ** 0.5)

        self._enter, self._leave = matrix(channels, WIDTH), matrix(WIDTH, channels)
        self._projections = {
            kind: [matrix(WIDTH, WIDTH) for _ in range(3)] for kind in ("first", "cross", "last")
        }

    def __call__(
        self, latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        hidden = latents.flatten(2).transpose(1, 2) @ self._enter
        hidden = hidden + torch.sin(timestep / 300).to(latents)[:, None, None]
        for kind in ("first", "cross", "last"):
            context = text if kind == "cross" else hidden
            site = AttentionSite(kind, is_cross=kind == "cross")
            hidden = hidden + torch.tanh(self._attend(site, hidden, context, control))
        return 0.5 * latents + 0.2 * (hidden @ self._leave).transpose(1, 2).reshape(latents.shape)

    def _attend(
        self, site: AttentionSite, hidden: Tensor, context: Tensor, control: AttentionControl | None
    ) -> Tensor:
        to_query, to_key, to_value = self._projections[site.name]
        query, key, value = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in (2 * hidden @ to_query, 2 * context @ to_key, context @ to_value)
        )
        if control is None:
            attended = scaled_dot_product_attention(query, key, value)
        else:
            attended = control.attend(site, query, key, value)
        return attended.transpose(1, 2).flatten(2)


def draw(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Draw normal numbers: the same in every type up to rounding."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)
