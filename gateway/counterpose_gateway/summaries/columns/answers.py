"""What classifiers answered on each item, as columns, and such columns while they grow."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpose_core.contract.scored import scored_document
from counterpose_core.statistics.coded import Flags, Floats, Ints
from counterpose_gateway.summaries.columns.codes import NONE, Codes

_NAN = float("nan")
_NOT_ANSWERED = 0


@dataclass(frozen=True)
class Answers:
    """What one classifier answered on each item's source (before) and image (after); hits are coded."""

    score_before: Floats
    score_after: Floats
    hits_before: Ints
    hits_after: Ints
    answer_before: Ints
    answer_after: Ints

    @property
    def known(self) -> Flags:
        """Which items have both answers."""
        return (self.hits_before > _NOT_ANSWERED) & (self.hits_after > _NOT_ANSWERED)


class GrowingAnswers:
    """The growing columns of one classifier; those of items before its first answer are empty."""

    def __init__(self) -> None:
        self._numbers = array("d"), array("d")
        self._codes = array("i"), array("i"), array("i"), array("i")

    def fill(self, length: int) -> None:
        """Add items without answers until there are ``length``."""
        missing = length - len(self._numbers[0])
        if missing > 0:
            for numbers in self._numbers:
                numbers.extend([_NAN] * missing)
            for number, codes in enumerate(self._codes):
                codes.extend([_NOT_ANSWERED if number < 2 else NONE] * missing)

    def add(self, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, names: Codes) -> None:
        """Add an item: its recorded predictions before and after, None without, and the codes of answers."""
        for place, recorded in enumerate((before, after)):
            document = None if recorded is None else scored_document(recorded)
            self._numbers[place].append(_NAN if document is None else document["score"])
            self._codes[place].append(_NOT_ANSWERED if document is None else hits_code(document["hits"]))
            self._codes[2 + place].append(names.add("" if document is None else answer_of(document)))

    def columns(self) -> Answers:
        """Return them, as many as were filled."""
        before, after = (np.frombuffer(each) for each in self._numbers)
        return Answers(before, after, *(np.frombuffer(each, dtype=np.int32) for each in self._codes))


def hits_code(hits: Sequence[bool]) -> int:
    """Return both headline figures of an answer as one number, never that of an item without an answer."""
    return 1 + hits[0] + 2 * hits[1]


def hits_of(code: int) -> tuple[bool, bool]:
    """Return the headline figures of which `hits_code` made a number."""
    return bool(code - 1 & 1), bool(code - 1 & 2)


def hit(codes: Ints, figure: int = 0) -> Flags:
    """Which items have an answer that hits by one of the headline figures."""
    return np.asarray((codes > _NOT_ANSWERED) & (codes - 1 >> figure & 1 > 0))


def answer_of(document: Mapping[str, Any]) -> str:
    """What a recorded answer says first; empty where nothing is shown."""
    shown = document["shown"]
    return str(shown[0][0]) if shown else ""
