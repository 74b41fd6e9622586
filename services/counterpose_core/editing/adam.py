"""Adam (Kingma and Ba 2015) as a function, for rows that share a batch but not their optimiser state."""

from __future__ import annotations

from torch import Tensor

# The defaults of Adam, which the published null-text and textual inversion use.
BETA_FIRST, BETA_SECOND, EPSILON = 0.9, 0.999, 1e-8


def adam_update(
    first: Tensor, second: Tensor, gradient: Tensor, count: int | Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the new moments, and the direction to subtract, after ``count`` gradients.

    Args:
        first: the first moments, in the shape of the gradient.
        second: the second moments, in the same shape.
        gradient: the new gradient.
        count: the number of gradients so far, including this one. One count per row must be float64 and
            broadcast against the gradient: the first corrections are differences of nearly equal numbers,
            which single precision would lose.
    """
    # torch's optimiser keeps its moments by parameter and cannot drop rows of a batch.
    first = BETA_FIRST * first + (1.0 - BETA_FIRST) * gradient
    second = BETA_SECOND * second + (1.0 - BETA_SECOND) * gradient.square()
    spread = (second / _missing(BETA_SECOND, count, gradient)).sqrt() + EPSILON
    return first, second, first / _missing(BETA_FIRST, count, gradient) / spread


def _missing(beta: float, count: int | Tensor, like: Tensor) -> float | Tensor:
    """Return the value of a moving average that starts at 0 after ``count`` terms equal to 1."""
    if isinstance(count, int):
        return float(1.0 - beta**count)
    return (1.0 - beta**count).to(like)
