"""The failure point of an image: the least level at which one that is right at level 0 is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

NEVER = 0.5
"""How likely an image never fails, beside failing at any level: of three images that are right, one holds.

On this prior no image takes more than three questions at five levels, whatever the operation does.
"""


def next_level(levels: Sequence[int], right: Mapping[int, bool]) -> int | None:
    """Return the level to ask next of an image that is right at level 0, or None where its point is known.

    The levels form a decision tree of as few questions as can be expected: the optimal alphabetic tree
    over the failure points and "never" (Gilbert and Moore 1959).

    Args:
        levels: those of the operation, the easiest first.
        right: whether the image is answered rightly, by the levels that were asked.
    """
    question = _walk(levels, right)[1]
    return None if question is None else levels[question]


def failure_place(levels: Sequence[int], right: Mapping[int, bool]) -> int | None:
    """Return where an image that is right at level 0 fails, as a place in ``levels``.

    The number of levels means that it never fails (right-censored), and None that levels are still to be
    asked. The point itself lies anywhere between the level before and the named one (interval-censored).
    """
    return _walk(levels, right)[0]


def _walk(levels: Sequence[int], right: Mapping[int, bool]) -> tuple[int | None, int | None]:
    """Return the place of the failure, or the place of the level to ask."""
    first, last = 0, len(levels)
    while first < last:
        question = _tree(first, last, len(levels))[1]
        answer = right.get(levels[question])
        if answer is None:
            return None, question
        first, last = (question + 1, last) if answer else (first, question)
    return first, None


@cache
def _tree(first: int, last: int, levels: int) -> tuple[float, int]:
    """Return the expected questions, times its weight, among the places, and the first question."""
    if first == last:
        return 0.0, first
    weight = float(last - first + 1) + (NEVER * levels - 1.0) * (last == levels)
    costs = (
        (_tree(first, at, levels)[0] + _tree(at + 1, last, levels)[0] + weight, at)
        for at in range(first, last)
    )
    return min(costs)
