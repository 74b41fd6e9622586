"""A few of many names, for a sentence that somebody reads."""

from __future__ import annotations

from collections.abc import Sequence

NAMED = 6


def some(names: Sequence[str]) -> str:
    """A few names, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
