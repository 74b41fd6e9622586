"""Names near to one that nothing has: what its writer may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

NEAR = 0.7
"""Least share of equal letters, by `difflib`: "demoo" is near "demo", "cat" is not near "car"."""
MOST_NAMED = 3


def near_names(name: str, names: Iterable[str]) -> list[str]:
    """Return the first of ``names`` that have ``name`` as a word, or else the one that is spelt most like it.

    Letter case, underscores and dashes do not count: "cat" is a word of "Egyptian_cat".
    """
    spelt, by_spelling = _spelt(name), {_spelt(each): each for each in names}
    near = [each for each in by_spelling if spelt and f" {spelt} " in f" {each} "][:MOST_NAMED]
    return [by_spelling[each] for each in near or get_close_matches(spelt, by_spelling, n=1, cutoff=NEAR)]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the `near_names` of ``name``; nothing if there are none."""
    near = " or ".join(map(repr, near_names(name, names)))
    return f" (did you mean {near}?)" if near else ""


def _spelt(name: str) -> str:
    return " ".join(name.casefold().replace("_", " ").replace("-", " ").replace(",", " ").split())
