"""The result of an inversion: the path of the source branch, and unconditional embeddings for its edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from counterpose_core.editing.denoiser import finite_rows


@dataclass(frozen=True)
class Inverted:
    """A batch of inverted images.

    Attributes:
        trajectory: the source branch (B, steps + 1, C, H, W) from noise to clean; edits read it and do not
            compute it again.
        uncond: the unconditional embedding of each step (B, steps, L, D), or one for all steps (B, 1, L, D).
        inner_iterations: the number of iterations of null-text optimisation (B, steps); 0 for other methods.
    """

    trajectory: Tensor
    uncond: Tensor
    inner_iterations: Tensor

    @property
    def reconstruction(self) -> Tensor:
        """The clean latents (B, C, H, W) at the end of the source branch."""
        return self.trajectory[:, -1]

    @property
    def finite(self) -> Tensor:
        """Whether the inversion of each image (B,) is free of NaN and infinity."""
        # Image by image, so that one that overflowed in half precision fails alone.
        return finite_rows(self.trajectory) & finite_rows(self.uncond)

    def uncond_at(self, index: int) -> Tensor:
        """Return the unconditional embeddings (B, L, D) of step ``index``."""
        # A single embedding stands for every step.
        return self.uncond[:, min(index, self.uncond.shape[1] - 1)]

    def select(self, row: int) -> Inverted:
        """Return one image as a batch of one."""
        rows = slice(row, row + 1)
        return Inverted(self.trajectory[rows], self.uncond[rows], self.inner_iterations[rows])

    @classmethod
    def concatenate(cls, parts: Sequence[Inverted]) -> Inverted:
        """Join batches of the same method and number of steps."""
        return cls(
            torch.cat([part.trajectory for part in parts]),
            torch.cat([part.uncond for part in parts]),
            torch.cat([part.inner_iterations for part in parts]),
        )


def no_inner_iterations(trajectory: Tensor) -> Tensor:
    """Return zeros (B, steps), for a method that optimises nothing."""
    return torch.zeros(trajectory.shape[0], trajectory.shape[1] - 1, dtype=torch.int64)
