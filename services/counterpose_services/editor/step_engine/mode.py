"""What the rows of one call share: the way in which the network computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from counterpose_core.editing.denoiser import AttentionControl, Denoiser


@dataclass(frozen=True)
class Mode:
    """The guidance that a distilled network takes in, and whether the weights are in float32 for now."""

    guidance: float = 1.0
    float32: bool = False


OWN_MODE = Mode()
"""The network as it was loaded."""


class ModalDenoiser(Denoiser, Protocol):
    """A denoiser that computes in several modes, one at a time."""

    def in_mode(self, mode: Mode) -> AbstractContextManager[None]:
        """Compute in ``mode`` within the context."""
        ...


class PlainDenoiser:
    """A denoiser of one mode, such as a network that does nothing."""

    def __init__(self, denoiser: Denoiser) -> None:
        self._denoiser = denoiser

    @contextmanager
    def in_mode(self, mode: Mode) -> Iterator[None]:
        """Compute as ever: there is no other mode."""
        yield

    def __call__(
        self, latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        """Predict as the denoiser does."""
        return self._denoiser(latents, timestep, text, control)
