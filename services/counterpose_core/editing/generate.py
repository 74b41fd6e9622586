"""Text-to-image: with DDIM, with a consistency model, or with any step scheduler.

An image depends only on its prompt and seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor

from counterpose_core.editing.driver.evaluation import Evaluation, Owner, Walk
from counterpose_core.editing.noise_schedule import Timetable
from counterpose_core.editing.solvers.ddim import guide, sampled, step
from counterpose_core.editing.solvers.solver import predicted_clean


def generators_of(seeds: Sequence[int]) -> list[Generator]:
    """Return one generator per seed, on the CPU because a GPU's would draw other numbers."""
    return [Generator().manual_seed(seed) for seed in seeds]


def drawn_noise(generators: Sequence[Generator], shape: tuple[int, int, int]) -> Tensor:
    """Draw the next noise (B, C, H, W) of each image, in float32 on every device."""
    # Half precision would draw other numbers than single.
    return torch.stack([torch.randn(shape, generator=generator) for generator in generators])


def starting_noise(seeds: Sequence[int], shape: tuple[int, int, int]) -> Tensor:
    """Draw noise (B, C, H, W), one sample per seed; equal on every device."""
    return drawn_noise(generators_of(seeds), shape)


def noise_of_each_step(seeds: Sequence[int], steps: int, shape: tuple[int, int, int]) -> Tensor:
    """Draw noise (B, steps, C, H, W), one generator per seed; the first step's is `starting_noise`."""
    generators = generators_of(seeds)
    return torch.stack([drawn_noise(generators, shape) for _ in range(steps)], dim=1)


@dataclass(frozen=True, kw_only=True)
class GuidedPrompts:
    """The prompts of B images under classifier-free guidance.

    Attributes:
        text: the encoded prompts (B, L, D).
        null: the encoded empty prompt (L, D).
        guidance: the scale of the guidance; 1 turns it off.
        owners: the owner of each image, who pays for its evaluations.
    """

    text: Tensor
    null: Tensor
    guidance: float
    owners: Sequence[Owner]

    @property
    def nulls(self) -> Tensor:
        """The empty prompt of each image (B, L, D)."""
        return self.null.expand(self.text.shape)


def generate_walk(table: Timetable, noise: Tensor, prompts: GuidedPrompts) -> Walk[Tensor]:
    """Denoise starting noise (B, C, H, W) with DDIM into clean latents."""
    latents = noise
    for index in range(table.steps):
        both = prompts.nulls, prompts.text
        uncond, cond = yield [sampled(table, index, latents, words, prompts.owners) for words in both]
        latents = step(table, index, latents, guide(uncond.output, cond.output, prompts.guidance))
    return latents


def consistency_walk(table: Timetable, noise: Tensor, prompts: GuidedPrompts) -> Walk[Tensor]:
    """Denoise with a consistency model, in a few steps, into clean latents (Luo et al. 2023).

    Every step predicts the image and mixes it with new noise for the next step (multistep consistency
    sampling). The skip connection that makes clean inputs fixed points has a weight below 1e-4 at every level
    of a timetable, and is left out. With guidance 1 the empty prompt is not evaluated.

    Args:
        table: the noise levels.
        noise: the noise (B, steps, C, H, W) of each step.
        prompts: the prompts of the images.
    """
    latents, clean = noise[:, 0], noise[:, 0]
    for index in range(table.steps):
        if index:
            level = table.levels[index]
            latents = math.sqrt(level) * clean + math.sqrt(1.0 - level) * noise[:, index]
        output = yield from _guided(table.timesteps[index], latents, prompts)
        clean = predicted_clean(table, index, latents, output)
    return clean


class StepScheduler(Protocol):
    """A sampler of one walk, such as a scheduler of diffusers; it may keep state, so each walk needs its own.

    The smallest one, which evaluates once and takes the output for the image:

        class Once:
            timesteps = (999,)

            def begin(self, noise):
                return noise

            def seen(self, latents, index):
                return latents

            def advance(self, latents, output, index):
                return output
    """

    @property
    def timesteps(self) -> Sequence[float]:
        """The timestep of each evaluation; a level may occur twice."""

    def begin(self, noise: Tensor) -> Tensor:
        """Scale unit noise (B, C, H, W) to the latents that the walk begins with."""

    def seen(self, latents: Tensor, index: int) -> Tensor:
        """Scale latents (B, C, H, W) to the network's input at evaluation ``index``."""

    def advance(self, latents: Tensor, output: Tensor, index: int) -> Tensor:
        """Return the latents (B, C, H, W) after evaluation ``index`` with guided ``output``."""


def scheduled_walk(scheduler: StepScheduler, noise: Tensor, prompts: GuidedPrompts) -> Walk[Tensor]:
    """Denoise unit noise (B, C, H, W) with a step scheduler into clean latents.

    With guidance 1 the empty prompt is not evaluated.
    """
    latents = scheduler.begin(noise)
    for index, timestep in enumerate(scheduler.timesteps):
        output = yield from _guided(timestep, scheduler.seen(latents, index), prompts)
        latents = scheduler.advance(latents, output, index)
    return latents


def _guided(timestep: float, latents: Tensor, prompts: GuidedPrompts) -> Walk[Tensor]:
    """Evaluate the prompts, and the empty prompt unless guidance is 1, and return the guided output."""
    asked = [prompts.text] if prompts.guidance == 1.0 else [prompts.text, prompts.nulls]
    cond, *uncond = yield [
        Evaluation(timestep=timestep, latents=latents, text=words, owners=prompts.owners) for words in asked
    ]
    return guide(uncond[0].output, cond.output, prompts.guidance) if uncond else cond.output
