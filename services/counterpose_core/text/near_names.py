"""Names near to one that nothing has: what its writer may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

NEAR = 0.7
"""Least share of equal letters, by `difflib`: "demoo" is near "demo", "cat" is not near "car"."""


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of ``names`` that is spelt most like ``name``, whatever its case, or None if none is."""
    by_spelling = {_spelt(each): each for each in names}
    near = get_close_matches(_spelt(name), by_spelling, n=1, cutoff=NEAR)
    return by_spelling[near[0]] if near else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the name `nearest` to ``name``; nothing if none is near."""
    near = nearest(name, names)
    return "" if near is None else f" (did you mean {near!r}?)"


def _spelt(name: str) -> str:
    return name.strip().casefold().replace("_", " ").replace("-", " ")
