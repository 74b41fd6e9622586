"""DPM-Solver++ (2M): a second-order solver that asks the network once a step (Lu et al. 2022)."""

from __future__ import annotations

import math

from torch import Tensor

from faultline_core.editing.noise_schedule import Timetable
from faultline_core.editing.solvers.solver import Move, predicted_clean


class DPMSolver2M:
    """Exponential integrator over half the log signal-to-noise ratio, in predicted clean latents.

    The slope of the prediction is taken from the step before (algorithm 2 of the paper). First and last
    step are of first order: before the first nothing is known, and the last ends where the ratio is
    infinite or nearly so, where extrapolating makes images worse.
    """

    compares = False

    def advance(self, table: Timetable, index: int, move: Move) -> tuple[Tensor, Tensor | None]:
        """Take one step, and give back the predicted clean latents for the next one."""
        clean = predicted_clean(table, index, move.latents, move.output)
        aim = clean
        if move.earlier is not None and index < table.steps - 1:
            # D = (1 + 1/2r) x_i - 1/2r x_(i-1), with r the step before over this one.
            weight = 0.5 * _width(table, index) / _width(table, index - 1)
            aim = (1.0 + weight) * clean - weight * move.earlier
        (signal, noise), (next_signal, next_noise) = _mixture(table, index), _mixture(table, index + 1)
        # exp(-h) without logarithms, so that a level entirely without noise is no special case.
        shrunk = next_noise * signal / (next_signal * noise)
        return next_noise / noise * move.latents + next_signal * (1.0 - shrunk) * aim, clean


def _mixture(table: Timetable, index: int) -> tuple[float, float]:
    """Shares of signal and noise in the latents before step ``index``."""
    return math.sqrt(table.levels[index]), math.sqrt(1.0 - table.levels[index])


def _width(table: Timetable, index: int) -> float:
    """How far step ``index`` goes in lambda = log(signal / noise)."""
    (signal, noise), (next_signal, next_noise) = _mixture(table, index), _mixture(table, index + 1)
    return math.log(next_signal * noise / (next_noise * signal))
