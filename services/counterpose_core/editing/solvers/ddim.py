"""Deterministic DDIM: a denoising step and its inverse (Song et al. 2021, eq. 12)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from counterpose_core.editing.driver.evaluation import Evaluation, Owner, Walk
from counterpose_core.editing.noise_schedule import PredictionType, Timetable


def step_coefficients(level: float, next_level: float, prediction: PredictionType) -> tuple[float, float]:
    """Return (a, b) with ``next = a * latents + b * output`` between two signal levels (alpha-bar).

    In both parametrisations the step is linear in latents and output; for velocity it is a rotation.
    """
    signal, noise = math.sqrt(level), math.sqrt(1.0 - level)
    next_signal, next_noise = math.sqrt(next_level), math.sqrt(1.0 - next_level)
    # Song et al. 2021, eq. 12, sigma 0: x0 = (z - noise * eps) / signal, z' = signal' * x0 + noise' * eps.
    if prediction == "epsilon":
        return next_signal / signal, next_noise - next_signal * noise / signal
    # Salimans and Ho 2022: with v = signal * eps - noise * x0, x0 = signal * z - noise * v and eps = noise *
    # z + signal * v. There is no division by a signal that may vanish.
    return next_signal * signal + next_noise * noise, next_noise * signal - next_signal * noise


def step(table: Timetable, index: int, latents: Tensor, output: Tensor) -> Tensor:
    """Take denoising step ``index`` (0 is the noisiest)."""
    a, b = step_coefficients(table.levels[index], table.levels[index + 1], table.prediction)
    return a * latents + b * output


def inverse_step(table: Timetable, index: int, latents: Tensor, output: Tensor) -> Tensor:
    """Undo denoising step ``index``; exact if ``output`` is the network's output before that step."""
    a, b = step_coefficients(table.levels[index], table.levels[index + 1], table.prediction)
    return (latents - b * output) / a


def guide(uncond: Tensor, cond: Tensor, guidance: float) -> Tensor:
    """Apply classifier-free guidance (Ho and Salimans 2022); with 1 the result is the conditional output."""
    return uncond + guidance * (cond - uncond)


def sampled(
    table: Timetable, index: int, latents: Tensor, text: Tensor, owners: Sequence[Owner]
) -> Evaluation:
    """Request the output for every row at step ``index``, without attention control."""
    return Evaluation(timestep=table.timesteps[index], latents=latents, text=text, owners=owners)


def ddim_inversion_walk(
    table: Timetable, clean: Tensor, text: Tensor, owners: Sequence[Owner]
) -> Walk[Tensor]:
    """Invert clean latents (B, C, H, W) to noise without guidance (Mokady et al. 2022, section 3.1).

    Returns:
        The trajectory (B, steps + 1, C, H, W), from noise to clean.
    """
    visited = [clean]
    for index in reversed(range(table.steps)):
        # The network evaluates the cleaner latents, the only known ones, at the noisier timestep. This
        # backward Euler step is the only approximation of the inversion; its error falls with the number of
        # steps.
        (answer,) = yield [sampled(table, index, visited[-1], text, owners)]
        visited.append(inverse_step(table, index, visited[-1], answer.output))
    return torch.stack(visited[::-1], dim=1)
