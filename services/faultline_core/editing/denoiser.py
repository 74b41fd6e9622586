"""How the editing methods see a diffusion model: a callable, its attention sites, and a counter around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from faultline_core.errors import Cancelled
from faultline_core.types import Cost

Cancellation = Callable[[], bool]
"""Polled between steps; True ends the work with Cancelled."""


@dataclass(frozen=True)
class AttentionSite:
    """One attention layer: its name in the model, and whether its keys come from the text."""

    name: str
    is_cross: bool


class AttentionControl(Protocol):
    """Computes the attention of every layer during one denoiser call, in place of the plain one."""

    def attend(self, site: AttentionSite, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return the attended values; all tensors are (batch, heads, positions, width)."""
        ...


class Denoiser(Protocol):
    """A noise or velocity prediction network whose rows do not depend on each other.

    The smallest one, with neither text nor attention:

        def halve(latents, timestep, text, control=None):
            return 0.5 * latents
    """

    def __call__(
        self, latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        """Predict for latents (B, C, H, W) at timestep (B,) given text (B, L, D)."""
        ...


class CountingDenoiser:
    """A denoiser that counts its calls and the samples it evaluates, forward and backward."""

    def __init__(self, denoiser: Denoiser) -> None:
        self._denoiser = denoiser
        self.cost = Cost()

    def __call__(
        self, latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        rows = latents.shape[0]
        # A backward pass costs about as much again: it is counted beside the forward one, not as one of them.
        tracked = torch.is_grad_enabled() and (text.requires_grad or latents.requires_grad)
        # Before the call, so that an evaluation that raises is paid for, too.
        self.cost += Cost(
            unet_calls=1, unet_evaluations=rows, unet_backward_evaluations=rows if tracked else 0
        )
        return self._denoiser(latents, timestep, text, control)


def never() -> bool:
    """Never cancel."""
    return False


def raise_if_cancelled(cancelled: Cancellation) -> None:
    """Raise Cancelled when the caller has asked to stop."""
    if cancelled():
        raise Cancelled("cancelled between two diffusion steps")


def finite_rows(latents: Tensor) -> Tensor:
    """Say for each sample of (B, ...) whether all its numbers are finite."""
    return torch.isfinite(latents).flatten(1).all(dim=1)
