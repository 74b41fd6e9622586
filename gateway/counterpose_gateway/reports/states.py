"""The states of everything that a report judges: a closed set of words, each with an icon."""

from __future__ import annotations

from collections.abc import Iterable

BADGES = {
    "breaks": "✗ breaks",
    "suspected": "? suspected",
    "test-unfit": "⚠ test unfit",
    "cannot-tell": "– can't tell",
    "holds": "✓ holds",
    "hint": "· hint",
}
"""State → its icon and word; a state is never told by colour alone."""


def worst(states: Iterable[str | None]) -> str:
    """Return the worst of some states, in the order of `BADGES`; empty if there is none."""
    return min(filter(None, states), key=list(BADGES).index, default="")
