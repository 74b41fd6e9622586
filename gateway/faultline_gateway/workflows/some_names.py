"""A few of many names, for a sentence that somebody reads."""

from __future__ import annotations

from collections.abc import Sequence

NAMED = 6


def some(names: Sequence[str], count: int | None = None) -> str:
    """A few names, and how many more there are of ``count``; without it these are all."""
    named = names[:NAMED]
    left = (len(names) if count is None else count) - len(named)
    return ", ".join(named) + (f" and {left} more" if left else "")
