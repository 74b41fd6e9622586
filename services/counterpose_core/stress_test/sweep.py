"""The sweep over strengths: the rounds in which its values are tried, so that few images are wasted."""

from __future__ import annotations

from collections.abc import Sequence

from counterpose_core.types import InjectionEnd, Selection


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


def rounds(
    sweep: Sequence[float], steps: int, selection: Selection, end: InjectionEnd = "exact"
) -> list[tuple[float, ...]]:
    """Split the values of a sweep into rounds, which are tried in turn until a value passes the gate.

    ``paper`` compares all values that pass (LANCE, Algorithm 1, lines 12-14), so it has one round with all
    values. ``released`` takes the largest value that passes, so its rounds go from the largest value down. In
    both, `counterpose_core.stress_test.filters.choose` returns the same value from those tried as from all.

    Args:
        sweep: the strengths.
        steps: the number of diffusion steps. Values whose injection ends at the same step give the same image
            and share a round.
        selection: ``paper`` or ``released``.
        end: how a value becomes a number of steps.
    """
    if selection == "paper":
        return [tuple(sweep)]
    counts = [leading_steps(value, steps, end) for value in sweep]
    return [
        tuple(value for value, count in zip(sweep, counts, strict=True) if count == latest)
        for latest in sorted(set(counts), reverse=True)
    ]
