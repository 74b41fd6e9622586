"""Which captions to draw, each once, so that what they say is shown about equally often."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence

from counterpose_core.bug_hunt.descriptions import content_words


def balanced(captions: Sequence[str], label: str, most: int) -> list[str]:
    """Return at most ``most`` captions, each once; the next one is always that of the rarest words so far.

    A caption's claim is the mean of 1 / (1 + n) over its words, where n counts the captions before it that
    have the word. Words stand for attributes, which no suite has to list: of captions of kites, of which most
    are sketches, the green ones and those at night come first.

    Args:
        captions: different captions; of equal claims the first one is taken.
        label: what all of them name.
        most: the greatest number.
    """
    words, taken, chosen = [content_words(each, label) for each in captions], Counter[str](), list[str]()
    claims = [(-_claim(each, taken), place) for place, each in enumerate(words)]
    heapq.heapify(claims)
    while claims and len(chosen) < most:
        _, place = heapq.heappop(claims)
        claim = (-_claim(words[place], taken), place)
        # A claim only ever falls, so that one which is still the largest needs no look at the others.
        if claims and claim > claims[0]:
            heapq.heappush(claims, claim)
            continue
        chosen.append(captions[place])
        taken.update(words[place])
    return chosen


def _claim(words: frozenset[str], taken: Counter[str]) -> float:
    # In order: a sum of floats depends on it, and the order of a set on the process.
    return sum(sorted(1.0 / (1 + taken[word]) for word in words)) / len(words) if words else 0.0
