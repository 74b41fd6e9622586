"""What classifiers answered on each item, as columns, and such columns while they grow."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpose_core.statistics.coded import Flags, Floats, Ints
from counterpose_gateway.summaries.columns.codes import NONE, Codes

_NAN = float("nan")
_NO_ANSWER: Mapping[str, Any] = {"p_true": _NAN, "rank_true": 0, "top": ()}


@dataclass(frozen=True)
class Answers:
    """What one classifier answered on each item's source (before) and image (after); ranks are 0 without."""

    p_before: Floats
    p_after: Floats
    rank_before: Ints
    rank_after: Ints
    best_before: Ints
    best_after: Ints

    @property
    def known(self) -> Flags:
        """Which items have both answers."""
        return (self.rank_before > 0) & (self.rank_after > 0)


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
                codes.extend([0 if number < 2 else NONE] * missing)

    def add(self, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, best: Codes) -> None:
        """Add an item: its recorded predictions before and after, None without, and the codes of classes."""
        before, after = before or _NO_ANSWER, after or _NO_ANSWER
        self._numbers[0].append(before["p_true"])
        self._numbers[1].append(after["p_true"])
        self._codes[0].append(before["rank_true"])
        self._codes[1].append(after["rank_true"])
        self._codes[2].append(best.add(best_class(before)))
        self._codes[3].append(best.add(best_class(after)))

    def columns(self) -> Answers:
        """Return them, as many as were filled."""
        before, after = (np.frombuffer(each) for each in self._numbers)
        rank_before, rank_after, best_before, best_after = (
            np.frombuffer(each, dtype=np.int32) for each in self._codes
        )
        return Answers(before, after, rank_before, rank_after, best_before, best_after)


def best_class(prediction: Mapping[str, Any]) -> str:
    """The most probable class of a recorded prediction; empty without one."""
    top = prediction["top"]
    return str(top[0][0]) if top else ""
