"""Inversions that optimise nothing: direct, negative-prompt and virtual."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from counterpose_core.editing.driver.evaluation import Owner, Walk
from counterpose_core.editing.inversion.inversion import Inverted, no_inner_iterations
from counterpose_core.editing.noise_schedule import Timetable
from counterpose_core.editing.solvers.ddim import ddim_inversion_walk, sampled, step


def direct_walk(
    table: Timetable, clean: Tensor, text: Tensor, null: Tensor, owners: Sequence[Owner]
) -> Walk[Inverted]:
    """Invert clean latents by direct inversion (Ju et al. 2023).

    At each step the method corrects the source branch back to the inversion path, so the branch is that path:
    reconstruction is exact, and the guided source steps need no evaluation.

    Args:
        table: the noise levels.
        clean: clean latents (B, C, H, W).
        text: the encoded captions (B, L, D).
        null: the encoded empty prompt (L, D), or that of each image (B, L, D).
        owners: the owner of each image, who pays for its evaluations.
    """
    trajectory = yield from ddim_inversion_walk(table, clean, text, owners)
    return Inverted(trajectory, _for_all_steps(null, clean), no_inner_iterations(trajectory))


def negative_prompt_walk(
    table: Timetable, clean: Tensor, text: Tensor, owners: Sequence[Owner]
) -> Walk[Inverted]:
    """Invert clean latents (B, C, H, W) under captions (B, L, D) (Miyake et al. 2023).

    The caption replaces the empty prompt. With equal conditional and unconditional text, every guidance scale
    gives the same output, so the source branch takes one evaluation per step. The edits use the caption as
    their negative prompt.
    """
    path = yield from ddim_inversion_walk(table, clean, text, owners)
    visited = [path[:, 0]]
    for index in range(table.steps):
        # uncond + w * (cond - uncond) with cond = uncond: one evaluation is exact for every guidance w.
        (answer,) = yield [sampled(table, index, visited[-1], text, owners)]
        visited.append(step(table, index, visited[-1], answer.output))
    trajectory = torch.stack(visited, dim=1)
    return Inverted(trajectory, text[:, None].clone(), no_inner_iterations(trajectory))


def virtual_inversion(table: Timetable, clean: Tensor, null: Tensor, noise: Tensor) -> Inverted:
    """Invert without any evaluation by mixing the image with noise at every level (Xu et al. 2023).

    The path is consistent with the image by construction (the paper's denoising diffusion consistent model).

    Args:
        table: the noise levels.
        clean: clean latents (B, C, H, W).
        null: the encoded empty prompt (L, D), or that of each image (B, L, D).
        noise: one draw per image, the same at all levels, in the shape of ``clean``.
    """
    path = [
        math.sqrt(level) * clean + math.sqrt(1.0 - level) * noise for level in table.levels[: table.steps]
    ]
    trajectory = torch.stack([*path, clean], dim=1)
    return Inverted(trajectory, _for_all_steps(null, clean), no_inner_iterations(trajectory))


def _for_all_steps(null: Tensor, clean: Tensor) -> Tensor:
    # One embedding for all steps: fifty equal ones would fill most of the cache.
    return null.expand(clean.shape[0], *null.shape[-2:])[:, None].clone()
