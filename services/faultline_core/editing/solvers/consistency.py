"""Text-to-image with a consistency model, a few steps long (Luo et al. 2023)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from faultline_core.editing.driver.evaluation import Owner, Walk
from faultline_core.editing.noise_schedule import Timetable
from faultline_core.editing.solvers.ddim import guide, sampled
from faultline_core.editing.solvers.solver import predicted_clean


def noise_of_each_step(seeds: Sequence[int], steps: int, shape: tuple[int, int, int]) -> Tensor:
    """Draw noise (B, steps, C, H, W), one generator a seed; the first is `generate.starting_noise`."""
    drawn = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        drawn.append(torch.stack([torch.randn(shape, generator=generator) for _ in range(steps)]))
    return torch.stack(drawn)


def consistency_walk(
    table: Timetable,
    noise: Tensor,
    text: Tensor,
    null: Tensor,
    *,
    guidance: float,
    owners: Sequence[Owner],
) -> Walk[Tensor]:
    """Denoise under prompts (B, L, D), with the noise (B, steps, C, H, W) of each step, into clean latents.

    Every step predicts the image itself and mixes it with new noise for the next (multistep consistency
    sampling). The skip connection that makes clean inputs fixed points weighs less than 1e-4 at any level
    that a timetable visits, and is left out. With guidance 1 the empty prompt is not asked about.
    """
    latents, clean, nulls = noise[:, 0], noise[:, 0], null.expand(text.shape)
    for index in range(table.steps):
        if index:
            level = table.levels[index]
            latents = math.sqrt(level) * clean + math.sqrt(1.0 - level) * noise[:, index]
        asked = [text] if guidance == 1.0 else [text, nulls]
        cond, *uncond = yield [sampled(table, index, latents, words, owners) for words in asked]
        output = guide(uncond[0].output, cond.output, guidance) if uncond else cond.output
        clean = predicted_clean(table, index, latents, output)
    return clean
