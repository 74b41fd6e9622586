"""The sweep over strengths: the rounds in which its values are tried, so that few images are wasted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from counterpose_core.types import Selection


def rounds(
    sweep: Sequence[float], level: Callable[[float], float], selection: Selection
) -> list[tuple[float, ...]]:
    """Split the values of a sweep into rounds, which are tried in turn until a value passes the gate.

    ``paper`` compares all values that pass (LANCE, Algorithm 1, lines 12-14), so it has one round with all
    values. ``released`` takes the largest value that passes, so its rounds go from the largest value down. In
    both, `counterpose_core.stress_test.filters.choose` returns the same value from those tried as from all.

    Args:
        sweep: the strengths.
        level: returns the level that a strength comes to. Those of one level give the same image and share a
            round.
        selection: ``paper`` or ``released``.
    """
    if selection == "paper":
        return [tuple(sweep)]
    levels = [level(value) for value in sweep]
    return [
        tuple(value for value, own in zip(sweep, levels, strict=True) if own == largest)
        for largest in sorted(set(levels), reverse=True)
    ]
