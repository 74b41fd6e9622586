"""Solvers: how an edited image gets from one noise level to the next (DDIM, DPM-Solver++ 2M, consistent)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from counterpose_core.editing.noise_schedule import Timetable
from counterpose_core.editing.solvers.ddim import step


@dataclass(frozen=True)
class Move:
    """One step of T targets: the input of a solver.

    Attributes:
        latents: the targets (T, C, H, W) before the step.
        output: the network's guided output for them.
        source_next: the latents of each target's source after the step.
        source: the latents of each target's source before the step; None unless the solver compares.
        source_output: the network's guided output for the sources; None unless the solver compares.
        earlier: what `Solver.advance` returned at the previous step, None at the first.
    """

    latents: Tensor
    output: Tensor
    source_next: Tensor
    source: Tensor | None = None
    source_output: Tensor | None = None
    earlier: Tensor | None = None


class Solver(Protocol):
    """Takes targets from one noise level to the next.

    The smallest one, which keeps no memory:

        class Still:
            compares = False

            def advance(self, table, index, move):
                return move.latents, None
    """

    @property
    def compares(self) -> bool:
        """Whether every step needs the network's output for the source."""

    def advance(self, table: Timetable, index: int, move: Move) -> tuple[Tensor, Tensor | None]:
        """Return the latents (T, C, H, W) after step ``index``, and what the next step needs, if anything."""


class DDIM:
    """Deterministic DDIM (Song et al. 2021, eq. 12): first order."""

    compares = False

    def advance(self, table: Timetable, index: int, move: Move) -> tuple[Tensor, Tensor | None]:
        """Take one step of `ddim.step`."""
        return step(table, index, move.latents, move.output), None


class DPMSolver2M:
    """DPM-Solver++ 2M, which evaluates the network once per step (Lu et al. 2022).

    An exponential integrator in half the log signal-to-noise ratio, applied to predicted clean latents. The
    slope of the prediction comes from the previous step (algorithm 2 of the paper). The first and the last
    step are of first order: before the first there is no slope, and at the last the ratio is infinite or
    nearly so, where extrapolation makes images worse.
    """

    compares = False

    def advance(self, table: Timetable, index: int, move: Move) -> tuple[Tensor, Tensor | None]:
        """Take one step and return the predicted clean latents for the next one."""
        clean = predicted_clean(table, index, move.latents, move.output)
        aim = clean
        if move.earlier is not None and index < table.steps - 1:
            # D = (1 + 1/2r) x_i - 1/2r x_(i-1), where r is the width of the last step over that of this one.
            weight = 0.5 * _width(table, index) / _width(table, index - 1)
            aim = (1.0 + weight) * clean - weight * move.earlier
        (signal, noise), (next_signal, next_noise) = _mixture(table, index), _mixture(table, index + 1)
        # exp(-h) without logarithms, so that a level without noise needs no special case.
        shrunk = next_noise * signal / (next_signal * noise)
        return next_noise / noise * move.latents + next_signal * (1.0 - shrunk) * aim, clean


class Consistent:
    """Moves a target by the difference between its predicted clean latents and its source's (Xu et al. 2023).

    The error of the source's prediction is known, because the source image is. The target's prediction is
    corrected by the same error, so an edit that changes nothing returns the source image. At every level the
    target keeps the source's noise.
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


def predicted_clean(table: Timetable, index: int, latents: Tensor, output: Tensor) -> Tensor:
    """Return the clean latents that the network's output at step ``index`` predicts.

    For noise x0 = (z - noise * eps) / signal (Song et al. 2021, eq. 9), for velocity signal * z - noise * v
    (Salimans and Ho 2022).
    """
    level = table.levels[index]
    signal, noise = math.sqrt(level), math.sqrt(1.0 - level)
    if table.prediction == "epsilon":
        return (latents - noise * output) / signal
    return signal * latents - noise * output


def _mixture(table: Timetable, index: int) -> tuple[float, float]:
    """Return the signal and noise amplitudes of the latents before step ``index``."""
    return math.sqrt(table.levels[index]), math.sqrt(1.0 - table.levels[index])


def _width(table: Timetable, index: int) -> float:
    """Return the width of step ``index`` in lambda = log(signal / noise)."""
    (signal, noise), (next_signal, next_noise) = _mixture(table, index), _mixture(table, index + 1)
    return math.log(next_signal * noise / (next_noise * signal))
