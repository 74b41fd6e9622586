"""Text-to-image with classifier-free guidance; an image depends on its prompt and seed alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from faultline_core.editing.denoiser import Cancellation, Denoiser, never
from faultline_core.editing.driver.driver import Driver
from faultline_core.editing.driver.evaluation import Owner, Walk
from faultline_core.editing.noise_schedule import Timetable
from faultline_core.editing.solvers.ddim import guide, sampled, step


def generators_of(seeds: Sequence[int]) -> list[Generator]:
    """One generator an image, on the CPU: a GPU's would draw other numbers."""
    return [Generator().manual_seed(seed) for seed in seeds]


def drawn_noise(generators: Sequence[Generator], shape: tuple[int, int, int]) -> Tensor:
    """Draw the next noise (B, C, H, W) of each image, in float32 on every device."""
    # Half precision would draw other numbers than single.
    return torch.stack([torch.randn(shape, generator=generator) for generator in generators])


def starting_noise(seeds: Sequence[int], shape: tuple[int, int, int]) -> Tensor:
    """Draw noise (B, C, H, W) of which each seed has its own, equal on every device."""
    return drawn_noise(generators_of(seeds), shape)


def generate_walk(
    table: Timetable,
    noise: Tensor,
    text: Tensor,
    null: Tensor,
    *,
    guidance: float,
    owners: Sequence[Owner],
) -> Walk[Tensor]:
    """Denoise (B, C, H, W) under prompts (B, L, D) and the empty prompt (L, D) into clean latents."""
    latents, nulls = noise, null.expand(text.shape)
    for index in range(table.steps):
        uncond, cond = yield [sampled(table, index, latents, words, owners) for words in (nulls, text)]
        latents = step(table, index, latents, guide(uncond.output, cond.output, guidance))
    return latents


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
    """Run `generate_walk` alone."""
    walk = generate_walk(table, noise, text, null, guidance=guidance, owners=range(noise.shape[0]))
    return Driver(denoiser, cancelled=cancelled).run(walk)
