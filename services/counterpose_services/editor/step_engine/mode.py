"""What the rows of one call share: the way in which the network computes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from counterpose_core.editing.denoiser import Denoiser


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
