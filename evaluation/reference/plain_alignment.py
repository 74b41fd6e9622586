"""Which words of an edited caption stand for which of the original, found by trying every way."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.reference.plain_editing import Carried

Word = tuple[int, ...]
"""The token ids of one word."""
Pair = tuple[int | None, int | None]
"""A word of the original and the word that stands for it; None where one was added or removed."""

GAP, OTHER_WORD = 2, 3


def pairs(source: Sequence[Word], target: Sequence[Word]) -> list[Pair]:
    """Align by least cost; of equals the one that, read from the end, exchanges before it adds or removes."""
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


def carried_maps(
    source: Sequence[Word], target: Sequence[Word], length: int, *, replace: bool
) -> tuple[Carried, list[int]]:
    """Tell the maps each token of the target takes over, and the positions of its new tokens.

    ``replace`` lets a new word take the map of the word it stands for, if every word stands for one;
    without it (``refine``) new words keep their own maps. Begin mark, end mark and padding follow in order.
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
    end, end_there = 1 + sum(map(len, source)), 1 + sum(map(len, target))
    for place in range(end_there, length):
        carried[place] = [(min(end + place - end_there, length - 1), 1.0)]
    return carried, added


def _places(words: Sequence[Word]) -> list[list[int]]:
    """Token positions of each word, behind the begin mark."""
    places, position = [], 1
    for word in words:
        places.append(list(range(position, position + len(word))))
        position += len(word)
    return places
