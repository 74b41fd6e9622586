"""Shares of the steps during which prompt-to-prompt replaces attention, as numbers of steps."""

from __future__ import annotations

from counterpose_core.types import InjectionEnd


def leading_steps(fraction: float, steps: int, end: InjectionEnd = "exact") -> int:
    """Return how many leading steps are a ``fraction`` of ``steps``.

    0.29 of 100 is 29 if ``end`` is ``exact``; ``released`` gives the 28 of prompt-to-prompt's released code,
    which truncates the product of two floating-point numbers.
    """
    return int(fraction * steps + (1e-9 if end == "exact" else 0.0))


def cross_steps(fraction: float, steps: int, end: InjectionEnd = "exact") -> int:
    """Return for how many leading steps of ``steps`` the cross-attention is replaced.

    ``released`` takes the fraction of one step more, as prompt-to-prompt's released code does: 0.8 of 12
    steps are 10, not 9.
    """
    return leading_steps(fraction, steps + 1, end) if end == "released" else leading_steps(fraction, steps)
