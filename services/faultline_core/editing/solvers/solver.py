"""Solvers: where a target gets to in one step, from what the network says of it and of its source."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from faultline_core.editing.noise_schedule import Timetable
from faultline_core.editing.solvers.ddim import step


@dataclass(frozen=True)
class Move:
    """Targets (T, C, H, W) at one step, the guided ``output`` for them, and what they carry along.

    ``source`` and ``source_output`` (T, C, H, W) are each target's image at this step and what the network
    says of it, guided alike, ``source_next`` is where it gets to; None unless the solver compares.
    ``earlier`` is what `Solver.advance` gave back a step ago, None in the first.
    """

    latents: Tensor
    output: Tensor
    source_next: Tensor
    source: Tensor | None = None
    source_output: Tensor | None = None
    earlier: Tensor | None = None


class Solver(Protocol):
    """Takes targets from one noise level to the next.

    The smallest one, which remembers nothing:

        class Still:
            compares = False

            def advance(self, table, index, move):
                return move.latents, None
    """

    @property
    def compares(self) -> bool:
        """Whether it looks at the source's output in every step."""
        ...

    def advance(self, table: Timetable, index: int, move: Move) -> tuple[Tensor, Tensor | None]:
        """Return latents (T, C, H, W) after step ``index``, and what the next step shall know if anything."""
        ...


class DDIM:
    """Deterministic DDIM (Song et al. 2021, eq. 12): first order."""

    compares = False

    def advance(self, table: Timetable, index: int, move: Move) -> tuple[Tensor, Tensor | None]:
        """Take one step of `ddim.step`."""
        return step(table, index, move.latents, move.output), None


def predicted_clean(table: Timetable, index: int, latents: Tensor, output: Tensor) -> Tensor:
    """Return the clean latents that the network's output at step ``index`` amounts to.

    For noise x0 = (z - noise * eps) / signal (Song et al. 2021, eq. 9), for velocity signal * z - noise * v
    (Salimans and Ho 2022).
    """
    level = table.levels[index]
    signal, noise = math.sqrt(level), math.sqrt(1.0 - level)
    if table.prediction == "epsilon":
        return (latents - noise * output) / signal
    return signal * latents - noise * output
