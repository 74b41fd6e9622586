"""Edits of captions: the exact difference of two captions, and the edits a language model proposes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from counterpose_core.types import PerturbationType

# Decimals come first, or "3.5" would be split. Hyphens belong to words: the released code reads the signs of
# a line diff and mistakes the hyphen of "close-up" for a removal.
_WORD = re.compile(r"\d+(?:[.,]\d+)+|[^\W_]+(?:[-'’][^\W_]+)*")
# A number opens a list line only when "." or ")" but no further digit follows: "2 dogs", "3.5 m" are text.
_MARKER = re.compile(
    r"^(?:[-*•–—]\s+|\(\d{1,3}\)\s*|\d{1,3}[.)](?!\d)\s*|variation\s+\d{1,3}\s*:\s*)", re.IGNORECASE
)
_QUOTES = {'"': '"', "“": "”", "'": "'", "‘": "’", "`": "`"}
_SECTION = "###"
# A cost is one number: a word costs more than all places together, so fewer words always win.
_ONE_PLACE, _ONE_WORD, _NEVER = 1, 1 << 32, 1 << 62


@dataclass(frozen=True, slots=True)
class Word:
    """One word token as written; ``start`` and ``end`` are character offsets into its text."""

    text: str
    start: int
    end: int

    @property
    def key(self) -> str:
        """The form in which words are compared: without case, and with one kind of apostrophe."""
        return self.text.casefold().replace("’", "'")


@dataclass(frozen=True, slots=True)
class Span:
    """A run of words; ``start`` is the index of its first word among ``words(text)``."""

    words: tuple[str, ...]
    start: int

    @property
    def text(self) -> str:
        """The words as one text."""
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class Difference:
    """The words that an edit removed from a caption and those that it added, from left to right.

    ``places`` counts the runs of changed words: a replaced word is one place, although it has a span in
    ``removed`` and another in ``added``.
    """

    removed: tuple[Span, ...]
    added: tuple[Span, ...]
    places: int

    @property
    def is_empty(self) -> bool:
        """True if no word differs; case and punctuation may."""
        return self.places == 0

    @property
    def removed_text(self) -> str:
        """All removed words as one text."""
        return " ".join(span.text for span in self.removed)

    @property
    def added_text(self) -> str:
        """All added words as one text."""
        return " ".join(span.text for span in self.added)


def words(text: str) -> list[Word]:
    """Split a caption into words without punctuation; hyphenated words and decimals stay whole."""
    return [Word(match.group(), match.start(), match.end()) for match in _WORD.finditer(text)]


@lru_cache(maxsize=256)
def kept_words(text: str) -> tuple[Word, ...]:
    """Return the same as `words`, kept for the next edits of the same caption."""
    return tuple(words(text))


# An item that is tried again, and each slot of a source, draws what was drawn before.
@lru_cache(maxsize=1024)
def difference(caption: str, edited: str) -> Difference:
    """Return the fewest changed words, in the fewest places, that turn one caption into the other.

    Case and punctuation do not count as changes. Among equally small differences, the one that keeps the
    leftmost words is returned, so the result is unique.
    """
    before, after = words(caption), words(edited)
    removed, added, places = [], [], 0
    for old, new in _gaps(_keys(caption), _keys(edited)):
        places += 1
        if old:
            removed.append(Span(tuple(before[index].text for index in old), old.start))
        if new:
            added.append(Span(tuple(after[index].text for index in new), new.start))
    return Difference(tuple(removed), tuple(added), places)


def _keys(text: str) -> tuple[str, ...]:
    return tuple(word.key for word in words(text))


def _gaps(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[range, range]]:
    """Yield the ranges of word indices, before and after, in which something changed."""
    left, right = 0, 0
    for kept_left, kept_right in [*_kept(before, after), (len(before), len(after))]:
        if left < kept_left or right < kept_right:
            yield range(left, kept_left), range(right, kept_right)
        left, right = kept_left + 1, kept_right + 1


def _kept(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """Return the index pairs of the kept words, by dynamic programming over suffixes."""
    # With the costs of suffixes, a walk from the left knows at each word whether keeping it is free.
    cost = _suffix_costs(before, after)
    pairs, i, j, inside = [], 0, 0, False
    while i < len(before) and j < len(after):
        if before[i] == after[j] and cost[False][i + 1][j + 1] == cost[inside][i][j]:
            pairs.append((i, j))
            i, j, inside = i + 1, j + 1, False
        elif cost[True][i + 1][j] <= cost[True][i][j + 1]:
            i, inside = i + 1, True
        else:
            j, inside = j + 1, True
    return pairs


def _suffix_costs(before: Sequence[str], after: Sequence[str]) -> dict[bool, list[list[int]]]:
    """Return the least cost of every pair of suffixes, outside (False) and inside (True) a place."""
    rows, columns = len(before), len(after)
    outside = [[0] * (columns + 1) for _ in range(rows + 1)]
    inside = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows, -1, -1):
        for j in range(columns, -1, -1):
            if i == rows and j == columns:
                continue
            removed = inside[i + 1][j] if i < rows else _NEVER
            added = inside[i][j + 1] if j < columns else _NEVER
            changed = _ONE_WORD + min(removed, added)
            kept = outside[i + 1][j + 1] if i < rows and j < columns and before[i] == after[j] else _NEVER
            inside[i][j] = min(changed, kept)
            outside[i][j] = min(changed + _ONE_PLACE, kept)
    return {False: outside, True: inside}


def compact_prompt(perturbation_type: PerturbationType, caption: str) -> str:
    """Return the prompt that asks a closed-vocabulary model for one edited caption and nothing else."""
    return f"{perturbation_type} : {caption} =>"


def parse_variations(text: str, *, original: str = "") -> list[str]:
    """Return the distinct captions of a language model's list in order, without ``original``.

    List numbers, dashes and enclosing quotes are removed; a caption that begins with a number keeps it.
    Lines that only announce the list are dropped, and a new ``###`` section ends the answer.
    """
    found: dict[tuple[str, ...], str] = {}
    for line in text.splitlines():
        if line.strip().startswith(_SECTION):
            break
        candidate = _unquoted(_MARKER.sub("", line.strip()).strip())
        key = _keys(candidate)
        if key and not candidate.endswith(":") and key != _keys(original):
            # Compared by words: a model repeats itself with different capitals and full stops.
            found.setdefault(key, candidate)
    return list(found.values())


def _unquoted(text: str) -> str:
    closing = _QUOTES.get(text[:1])
    wrapped = closing is not None and len(text) > 1 and text.endswith(closing)
    return text[1:-1].strip() if wrapped else text
