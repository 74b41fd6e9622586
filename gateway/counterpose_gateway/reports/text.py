"""Shorten a list of names for a sentence."""

from __future__ import annotations

from collections.abc import Sequence

NAMED = 6


def truncate_list(names: Sequence[str], count: int | None = None) -> str:
    """The first names, and how many of ``count`` are left; without ``count``, ``names`` is the whole list."""
    named = names[:NAMED]
    left = (len(names) if count is None else count) - len(named)
    return ", ".join(named) + (f" and {left} more" if left else "")
