"""Lists of names and marked captions, shortened for a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

NAMED = 6

_SHORT_GAP = 2


class Piece(Protocol):
    """A piece of a caption, changed or not."""

    @property
    def text(self) -> str:
        """Return its words, with the spaces around them."""

    @property
    def changed(self) -> bool:
        """Return whether an edit changes them."""


def changed_words(pieces: Sequence[Piece]) -> str:
    """The changed words of a caption: with a word or two that stand between them, without longer gaps."""
    places = [place for place, piece in enumerate(pieces) if piece.changed]
    said = ""
    for place in places:
        gap = "" if place == places[0] or pieces[place - 1].changed else pieces[place - 1].text
        said += (gap if len(gap.split()) <= _SHORT_GAP else " … ") + pieces[place].text
    return said


def truncate_list(names: Sequence[str], count: int | None = None) -> str:
    """The first names, and how many of ``count`` are left; without ``count``, ``names`` is the whole list."""
    named = names[:NAMED]
    left = (len(names) if count is None else count) - len(named)
    return ", ".join(named) + (f" and {left} more" if left else "")
