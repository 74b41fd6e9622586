"""Words and phrases that no text may contain: an operator's list, for requests and for what models write."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

_WORD = re.compile(r"\w+")
_PLURALS = ("", "s", "es")
MOST_PHRASES = 10_000
LONGEST_TEXT = 5000
"""Longer strings of a request are images, not text: no field takes so many letters."""


class WordPolicy:
    """Finds the first refused phrase of a text, whatever its case, spacing, width or plural.

    policy = WordPolicy(["severed head"])
    policy.found("two Severed  heads")  # "severed head"
    """

    def __init__(self, phrases: Iterable[str] = ()) -> None:
        self.phrases = tuple(dict.fromkeys(phrase.strip() for phrase in phrases if phrase.strip()))
        self._by_first: dict[str, list[tuple[tuple[str, ...], str]]] = defaultdict(list)
        for phrase in self.phrases:
            words = _words(phrase)
            if not words:
                raise ValueError(f"the refused phrase {phrase!r} has no word in it")
            for ending in _PLURALS:
                inflected = (*words[:-1], words[-1] + ending)
                self._by_first[inflected[0]].append((inflected, phrase))

    @classmethod
    def read(cls, file: Path) -> WordPolicy:
        """Read a file in UTF-8 with a phrase in each line; what follows a # is a remark.

        Raises:
            ValueError: the file cannot be read, or has more than `MOST_PHRASES` phrases.
        """
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"the list of refused words {str(file)!r} cannot be read: {error}") from error
        policy = cls(line.partition("#")[0] for line in lines)
        if len(policy.phrases) > MOST_PHRASES:
            raise ValueError(
                f"{str(file)!r} has {len(policy.phrases)} refused phrases; at most {MOST_PHRASES} are read"
            )
        return policy

    def found(self, text: str) -> str | None:
        """Return the first refused phrase that a text contains, as it stands in the list, or None."""
        if not self._by_first:
            return None
        words = _words(text)
        for place, word in enumerate(words):
            for wanted, phrase in self._by_first.get(word, ()):
                if words[place : place + len(wanted)] == wanted:
                    return phrase
        return None

    def found_in(self, value: object) -> tuple[str, str] | None:
        """Return the JSON pointer of the first text within a JSON value that is refused, and the phrase."""
        if not self._by_first:
            return None
        return next(
            ((pointer, phrase) for pointer, text in _texts(value) if (phrase := self.found(text))), None
        )


@lru_cache(maxsize=16)
def policy_of(phrases: tuple[str, ...]) -> WordPolicy:
    """Return the policy of these phrases, the same object each time."""
    return WordPolicy(phrases)


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def _texts(value: object) -> Iterator[tuple[str, str]]:
    """Yield every text within a JSON value with its pointer; deep nesting costs no recursion."""
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        pointer, part = waiting.pop()
        if isinstance(part, str):
            if len(part) <= LONGEST_TEXT:
                yield pointer, part
        elif isinstance(part, dict):
            waiting += [(f"{pointer}/{_escaped(str(name))}", each) for name, each in reversed(part.items())]
        elif isinstance(part, list):
            waiting += [(f"{pointer}/{place}", each) for place, each in reversed(list(enumerate(part)))]


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
