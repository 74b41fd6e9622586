"""What every inversion yields: the source branch's path, and unconditional embeddings for its edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from faultline_core.editing.denoiser import finite_rows


@dataclass(frozen=True)
class Inverted:
    """A batch of inverted images.

    ``trajectory`` (B, steps + 1, C, H, W) is the source branch from noise to clean: an edit reads it and
    never computes it again. ``uncond`` (B, steps or 1, L, D) is the unconditional embedding of each step,
    or one for all. ``inner_iterations`` (B, steps) counts null-text optimisation, zero for other methods.
    """

    trajectory: Tensor
    uncond: Tensor
    inner_iterations: Tensor

    @property
    def reconstruction(self) -> Tensor:
        """Clean latents (B, C, H, W) the source branch ends in."""
        return self.trajectory[:, -1]

    @property
    def finite(self) -> Tensor:
        """Say for each image whether the inversion is free of NaN and infinity."""
        # Image by image: one that overflowed in half precision fails alone.
        return finite_rows(self.trajectory) & finite_rows(self.uncond)

    def uncond_at(self, index: int) -> Tensor:
        """Unconditional embeddings (B, L, D) of step ``index``."""
        # A single embedding stands for every step.
        return self.uncond[:, min(index, self.uncond.shape[1] - 1)]

    def select(self, row: int) -> Inverted:
        """One image as a batch of one."""
        rows = slice(row, row + 1)
        return Inverted(self.trajectory[rows], self.uncond[rows], self.inner_iterations[rows])

    @classmethod
    def concatenate(cls, parts: Sequence[Inverted]) -> Inverted:
        """Join batches made with the same method and number of steps."""
        return cls(
            torch.cat([part.trajectory for part in parts]),
            torch.cat([part.uncond for part in parts]),
            torch.cat([part.inner_iterations for part in parts]),
        )


def no_inner_iterations(trajectory: Tensor) -> Tensor:
    """Zeros (B, steps) for a method that optimises nothing."""
    return torch.zeros(trajectory.shape[0], trajectory.shape[1] - 1, dtype=torch.int64)
