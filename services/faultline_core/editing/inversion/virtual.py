"""Virtual inversion: a source path written down, not computed, and edits beside it (Xu et al. 2023)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from faultline_core.editing.inversion.inversion import Inverted, no_inner_iterations
from faultline_core.editing.noise_schedule import Timetable
from faultline_core.editing.solvers.solver import Move, predicted_clean


def virtual_inversion(table: Timetable, clean: Tensor, null: Tensor, noise: Tensor) -> Inverted:
    """Mix clean latents (B, C, H, W) with noise of the same shape at every level: no evaluation at all.

    ``noise`` is one drawing an image, the same at all levels: a denoising path that is consistent with the
    image by construction (the paper's denoising diffusion consistent model).
    """
    path = [
        math.sqrt(level) * clean + math.sqrt(1.0 - level) * noise for level in table.levels[: table.steps]
    ]
    trajectory = torch.stack([*path, clean], dim=1)
    uncond = null.expand(clean.shape[0], 1, *null.shape).clone()
    return Inverted(trajectory, uncond, no_inner_iterations(trajectory))


class Consistent:
    """Moves a target beside its source: by as much as their two predictions of clean latents differ.

    The source's prediction is known to be wrong by its difference to the image; the target's is put
    right by the same amount, so an edit that changes nothing gives back the image. What is left of the
    noise is the source's own, at every level.
    """

    compares = True

    def advance(self, table: Timetable, index: int, move: Move) -> tuple[Tensor, Tensor | None]:
        """Take one step: ``source_next + signal' * (clean - source's clean)``."""
        if move.source is None or move.source_output is None:
            raise ValueError(
                "virtual inversion needs the source's output at every step, and this move has none"
            )
        clean = predicted_clean(table, index, move.latents, move.output)
        shown = predicted_clean(table, index, move.source, move.source_output)
        return move.source_next + math.sqrt(table.levels[index + 1]) * (clean - shown), None
