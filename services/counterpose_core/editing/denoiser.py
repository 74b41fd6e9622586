"""The interface of the editing methods to a diffusion model, its attention layers and its costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from counterpose_core.errors import Cancelled
from counterpose_core.types import Cost

Cancellation = Callable[[], bool]
"""Polled between steps; if it returns True, the work stops with Cancelled."""


@dataclass(frozen=True)
class AttentionSite:
    """One attention layer: its name in the model and whether its keys come from the text."""

    name: str
    is_cross: bool


class AttentionControl(Protocol):
    """Replaces the attention of every layer during one denoiser call."""

    @property
    def map_bytes(self) -> int:
        """Bytes of the attention maps computed so far outside of a fused kernel."""

    def attend(self, site: AttentionSite, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return the attended values; all tensors are (batch, heads, positions, width)."""


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


@dataclass(frozen=True)
class EvaluationFlops:
    """Floating-point operations of one sample's evaluation and of its gradient in the text embedding."""

    forward: int = 0
    backward: int = 0

    def priced(self, cost: Cost) -> Cost:
        """Return ``cost`` with the operations of all its evaluations added."""
        taken = cost.unet_evaluations * self.forward + cost.unet_backward_evaluations * self.backward
        return cost.model_copy(update={"flops": cost.flops + taken})


class CountingDenoiser:
    """A denoiser that counts its calls, evaluated samples, attention map bytes and host synchronisations.

    ``flops`` prices an evaluation; without it the count of operations stays 0.
    """

    def __init__(self, denoiser: Denoiser, flops: EvaluationFlops = EvaluationFlops()) -> None:
        self._denoiser = denoiser
        self._flops = flops
        self._calls = self._evaluations = self._backward = self._map_bytes = 0
        self.host_syncs = 0

    @property
    def cost(self) -> Cost:
        """Everything counted so far."""
        counted = Cost(
            unet_calls=self._calls,
            unet_evaluations=self._evaluations,
            unet_backward_evaluations=self._backward,
            attention_map_bytes=self._map_bytes,
            host_syncs=self.host_syncs,
        )
        return self._flops.priced(counted)

    def __call__(
        self, latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        rows = latents.shape[0]
        # Counted before the call, so that evaluations that raise count too.
        self._calls += 1
        self._evaluations += rows
        # A backward pass costs about as much again and is counted separately.
        if torch.is_grad_enabled() and (text.requires_grad or latents.requires_grad):
            self._backward += rows
        if control is None:
            return self._denoiser(latents, timestep, text)
        before = control.map_bytes
        try:
            return self._denoiser(latents, timestep, text, control)
        finally:
            self._map_bytes += control.map_bytes - before


def read_on_host(denoiser: Denoiser, result: Tensor) -> Tensor:
    """Copy ``result`` to the host, which waits for the device; a CountingDenoiser counts the wait."""
    if isinstance(denoiser, CountingDenoiser):
        denoiser.host_syncs += 1
    return result.cpu()


def never() -> bool:
    """Return False: never cancel."""
    return False


def raise_if_cancelled(cancelled: Cancellation) -> None:
    """Raise Cancelled if the caller has asked to stop."""
    if cancelled():
        raise Cancelled("cancelled between two diffusion steps")


def finite_rows(latents: Tensor) -> Tensor:
    """Return for each sample of (B, ...) whether all its numbers are finite (B,)."""
    return torch.isfinite(latents).flatten(1).all(dim=1)
