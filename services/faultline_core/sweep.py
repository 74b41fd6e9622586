"""The sweep over self_replace: in which rounds its values are tried, so that none is made in vain."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.types import Selection


def leading_steps(fraction: float, steps: int) -> int:
    """Number of leading steps that make up ``fraction`` of all; 0.29 of 100 is 29 whatever floats say."""
    return int(fraction * steps + 1e-9)


def rounds(sweep: Sequence[float], steps: int, selection: Selection) -> list[tuple[float, ...]]:
    """Part the values of a sweep into rounds, to be tried in turn until an edit has a value that passes.

    ``paper`` compares all that pass (LANCE, Algorithm 1, lines 12-14), so there is one round. The rule of
    the released code takes the largest value that passes: ``released`` tries values from the largest
    down, and what `faultline_core.filters.choose` takes of those tried is what it takes of them all.
    Values whose injection ends at the same of ``steps`` steps give one picture and share a round.
    """
    if selection == "paper":
        return [tuple(sweep)]
    ends = sorted({leading_steps(value, steps) for value in sweep}, reverse=True)
    return [tuple(value for value in sweep if leading_steps(value, steps) == end) for end in ends]
