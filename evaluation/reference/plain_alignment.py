"""Which words of an edited caption stand for which words of the original, by exhaustive search."""

from __future__ import annotations

from collections.abc import Sequence

from counterpose_core.types import TokenAlignment, WeightedWords
from evaluation.reference.plain_editing import Carried

Word = tuple[int, ...]
"""The token ids of one word."""
Pair = tuple[int | None, int | None]
"""A word of the original and the word that stands for it; None where one was added or removed."""

GAP, OTHER_WORD = 2, 3


def pairs(source: Sequence[Word], target: Sequence[Word]) -> list[Pair]:
    """Align at least cost; ties go to the one that, from the end, exchanges first."""
    known: dict[tuple[int, int], tuple[int, list[Pair]]] = {}

    def best(i: int, j: int) -> tuple[int, list[Pair]]:
        if (i, j) == (0, 0):
            return 0, []
        if (i, j) not in known:
            ways = []
            if i and j:
                cost, before = best(i - 1, j - 1)
                price = 0 if source[i - 1] == target[j - 1] else OTHER_WORD
                ways.append((cost + price, [*before, (i - 1, j - 1)]))
            if j:
                cost, before = best(i, j - 1)
                ways.append((cost + GAP, [*before, (None, j - 1)]))
            if i:
                cost, before = best(i - 1, j)
                ways.append((cost + GAP, [*before, (i - 1, None)]))
            known[i, j] = min(ways, key=lambda way: way[0])
        return known[i, j]

    return best(len(source), len(target))[1]


def released_pairs(source: Word, target: Word) -> list[tuple[int, int]]:
    """Pair equal tokens, as many as possible; read from the end, added before removed before paired."""
    known: dict[tuple[int, int], tuple[int, list[tuple[int, int]]]] = {}

    def best(i: int, j: int) -> tuple[int, list[tuple[int, int]]]:
        if (i, j) not in known:
            ways: list[tuple[int, list[tuple[int, int]]]] = []
            if j:
                ways.append(best(i, j - 1))
            if i:
                ways.append(best(i - 1, j))
            if i and j and source[i - 1] == target[j - 1]:
                matches, before = best(i - 1, j - 1)
                ways.append((matches + 1, [*before, (i - 1, j - 1)]))
            known[i, j] = max(ways, key=lambda way: way[0], default=(0, []))
        return known[i, j]

    return best(len(source), len(target))[1]


def carried_maps(
    source: Sequence[Word],
    target: Sequence[Word],
    length: int,
    *,
    replace: bool,
    tokens: TokenAlignment = "words",
    weighted: WeightedWords = "added",
) -> tuple[Carried, list[int]]:
    """Return the maps that each token of the target takes over, and the positions of the weighted tokens.

    ``replace`` lets a new word take the map of the word it stands for, if every word stands for one;
    without it (``refine``) new words keep their own maps. Begin mark, end mark and padding follow in order.
    Under ``tokens="released"`` padding has the map of its own place, and refining pairs single tokens.
    Under ``weighted="released"`` a new word is weighted wherever it occurs.
    """
    found = pairs(source, target)
    swap = replace and all(i is not None and j is not None for i, j in found)
    here, there = _places(source), _places(target)
    carried: Carried = {0: [(0, 1.0)]}
    added: list[int] = []
    for i, j in found:
        if j is None:
            continue
        same = i is not None and source[i] == target[j]
        if not same:
            added += there[j]
        if i is None or not (same or swap):
            continue
        for number, place in enumerate(there[j]):
            if len(here[i]) == len(there[j]):
                carried[place] = [(here[i][number], 1.0)]
            else:
                carried[place] = [(one, 1.0 / len(there[j])) for one in here[i]]
    if weighted == "released":
        new = {word for word, places in zip(target, there, strict=True) if set(places) & set(added)}
        added = [place for word, places in zip(target, there, strict=True) if word in new for place in places]
    if tokens == "released" and not swap:
        paired = released_pairs(sum(source, ()), sum(target, ()))
        carried = {0: [(0, 1.0)], **{j + 1: [(i + 1, 1.0)] for i, j in paired}}
    return carried | _tails(source, target, length, tokens), added


def _tails(source: Sequence[Word], target: Sequence[Word], length: int, tokens: TokenAlignment) -> Carried:
    """Return the maps that the end mark and the padding take over."""
    end, end_there = 1 + sum(map(len, source)), 1 + sum(map(len, target))
    if tokens == "released":
        return {end_there: [(end, 1.0)], **{place: [(place, 1.0)] for place in range(end_there + 1, length)}}
    return {place: [(min(end + place - end_there, length - 1), 1.0)] for place in range(end_there, length)}


def _places(words: Sequence[Word]) -> list[list[int]]:
    """Token positions of each word, after the begin mark."""
    places, position = [], 1
    for word in words:
        places.append(list(range(position, position + len(word))))
        position += len(word)
    return places
