"""Negative-prompt inversion: the caption itself stands for the null text (Miyake et al. 2023)."""

from __future__ import annotations

import torch
from torch import Tensor

from faultline_core.editing.ddim import ddim_inversion, predict, step
from faultline_core.editing.denoiser import Cancellation, Denoiser, never, raise_if_cancelled
from faultline_core.editing.inversion import Inverted, no_inner_iterations
from faultline_core.editing.noise_schedule import Timetable


@torch.no_grad()
def negative_prompt_inversion(
    denoiser: Denoiser, table: Timetable, clean: Tensor, text: Tensor, *, cancelled: Cancellation = never
) -> Inverted:
    """Invert (B, C, H, W) given captions (B, L, D).

    With equal conditional and unconditional text any guidance is guidance 1, so the source branch takes
    one evaluation a step; the same embeddings serve as the negative prompt of the edits.
    """
    latents = ddim_inversion(denoiser, table, clean, text, cancelled=cancelled)[:, 0]
    visited = [latents]
    for index in range(table.steps):
        raise_if_cancelled(cancelled)
        # uncond + w * (cond - uncond) with cond = uncond: one evaluation is right for every guidance w.
        latents = step(table, index, latents, predict(denoiser, table, index, latents, text))
        visited.append(latents)
    trajectory = torch.stack(visited, dim=1)
    return Inverted(trajectory, text[:, None].clone(), no_inner_iterations(trajectory))
