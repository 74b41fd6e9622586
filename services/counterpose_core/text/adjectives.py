"""Adjectives of English, from WordNet 3.0 (`evaluation.word_lists.adjectives` derives the list)."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

from counterpose_core.text.stop_words import STOP_WORDS

LIST = Path(__file__).with_name("adjectives.txt.gz")


@cache
def adjectives() -> frozenset[str]:
    """Return the adjectives that are one word, in lower case; stop words are none."""
    lines = gzip.decompress(LIST.read_bytes()).decode("ascii").splitlines()
    return frozenset(line for line in lines if not line.startswith("#")) - STOP_WORDS


def attributive(words: list[str]) -> list[int]:
    """Return the places of words that are adjectives before a noun: "yellow" of "on a yellow flower".

    Only these can be left out: without "blurred", "the background is blurred" is no sentence.

    Args:
        words: one sentence in order, case-folded, with punctuation as words of its own.
    """
    known, found = adjectives(), list[int]()
    before_noun = False
    for place in range(len(words) - 1, -1, -1):
        word = words[place]
        if before_noun and word in known:
            found.append(place)
        else:
            before_noun = word[0].isalnum() and word not in STOP_WORDS
    return found[::-1]
