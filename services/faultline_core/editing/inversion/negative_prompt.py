"""Negative-prompt inversion: the caption itself stands for the null text (Miyake et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from faultline_core.editing.denoiser import Cancellation, Denoiser, never
from faultline_core.editing.driver.driver import Driver
from faultline_core.editing.driver.evaluation import Owner, Walk
from faultline_core.editing.inversion.inversion import Inverted, no_inner_iterations
from faultline_core.editing.noise_schedule import Timetable
from faultline_core.editing.solvers.ddim import ddim_inversion_walk, sampled, step


def negative_prompt_walk(
    table: Timetable, clean: Tensor, text: Tensor, owners: Sequence[Owner]
) -> Walk[Inverted]:
    """Invert (B, C, H, W) given captions (B, L, D).

    With equal conditional and unconditional text any guidance is guidance 1, so the source branch takes
    one evaluation a step; the same embeddings serve as the negative prompt of the edits.
    """
    path = yield from ddim_inversion_walk(table, clean, text, owners)
    visited = [path[:, 0]]
    for index in range(table.steps):
        # uncond + w * (cond - uncond) with cond = uncond: one evaluation is right for every guidance w.
        (answer,) = yield [sampled(table, index, visited[-1], text, owners)]
        visited.append(step(table, index, visited[-1], answer.output))
    trajectory = torch.stack(visited, dim=1)
    return Inverted(trajectory, text[:, None].clone(), no_inner_iterations(trajectory))


def negative_prompt_inversion(
    denoiser: Denoiser, table: Timetable, clean: Tensor, text: Tensor, *, cancelled: Cancellation = never
) -> Inverted:
    """Run `negative_prompt_walk` alone."""
    owners = range(clean.shape[0])
    return Driver(denoiser, cancelled=cancelled).run(negative_prompt_walk(table, clean, text, owners))
