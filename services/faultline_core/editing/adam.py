"""Adam's moments written out (Kingma and Ba 2015), for rows that share a batch but not an optimiser."""

from __future__ import annotations

from torch import Tensor

# Adam's own defaults, with which null-text and textual inversion were published.
BETA_FIRST, BETA_SECOND, EPSILON = 0.9, 0.999, 1e-8


def adam_update(
    first: Tensor, second: Tensor, gradient: Tensor, count: int | Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return new moments and the direction to step against after ``count`` gradients.

    A ``count`` of its own for each row is float64 and broadcasts against the gradient: single precision
    would lose the first corrections, which are differences of nearly equal numbers.
    """
    # Not torch's optimiser: it keeps its moments by parameter and cannot give up rows of a batch.
    first = BETA_FIRST * first + (1.0 - BETA_FIRST) * gradient
    second = BETA_SECOND * second + (1.0 - BETA_SECOND) * gradient.square()
    spread = (second / _missing(BETA_SECOND, count, gradient)).sqrt() + EPSILON
    return first, second, first / _missing(BETA_FIRST, count, gradient) / spread


def _missing(beta: float, count: int | Tensor, like: Tensor) -> float | Tensor:
    """Return what a moving average from zero has come to after ``count`` terms of weight 1."""
    if isinstance(count, int):
        return float(1.0 - beta**count)
    return (1.0 - beta**count).to(like)
