"""Text-to-image with classifier-free guidance; a picture depends on its prompt and seed alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from faultline_core.editing.ddim import guide, predict, step
from faultline_core.editing.denoiser import Cancellation, Denoiser, never, raise_if_cancelled
from faultline_core.editing.noise_schedule import Timetable


def starting_noise(seeds: Sequence[int], shape: tuple[int, int, int]) -> Tensor:
    """Draw noise (B, C, H, W) on the CPU in float32, one generator a seed: equal on every device."""
    # A GPU's generator draws other numbers than the CPU's, and half precision other ones than single.
    draws = [torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    return torch.stack(draws)


@torch.no_grad()
def generate(
    denoiser: Denoiser,
    table: Timetable,
    noise: Tensor,
    text: Tensor,
    null: Tensor,
    *,
    guidance: float,
    cancelled: Cancellation = never,
) -> Tensor:
    """Denoise (B, C, H, W) under prompts (B, L, D) and the empty prompt (L, D) into clean latents."""
    latents = noise
    both = torch.cat([null.expand(text.shape), text])
    for index in range(table.steps):
        raise_if_cancelled(cancelled)
        uncond, cond = predict(denoiser, table, index, torch.cat([latents, latents]), both).chunk(2)
        latents = step(table, index, latents, guide(uncond, cond, guidance))
    return latents
