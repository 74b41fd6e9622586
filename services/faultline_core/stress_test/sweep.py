"""The sweep over self_replace: the rounds in which its values are tried, so that few images are wasted."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.types import Selection


def leading_steps(fraction: float, steps: int) -> int:
    """Return how many leading steps are a ``fraction`` of ``steps``; 0.29 of 100 is 29 despite rounding."""
    return int(fraction * steps + 1e-9)


def rounds(sweep: Sequence[float], steps: int, selection: Selection) -> list[tuple[float, ...]]:
    """Split the values of a sweep into rounds, which are tried in turn until a value passes the gate.

    ``paper`` compares all values that pass (LANCE, Algorithm 1, lines 12-14), so it has one round with all
    values. ``released`` takes the largest value that passes, so its rounds go from the largest value down. In
    both, `faultline_core.stress_test.filters.choose` returns the same value from the tried ones as from all.

    Args:
        sweep: the values of self_replace.
        steps: the number of diffusion steps. Values whose injection ends at the same step give the same image
            and share a round.
        selection: ``paper`` or ``released``.
    """
    if selection == "paper":
        return [tuple(sweep)]
    ends = sorted({leading_steps(value, steps) for value in sweep}, reverse=True)
    return [tuple(value for value in sweep if leading_steps(value, steps) == end) for end in ends]
