"""Faults: where they may occur, and which of them a seed lets occur."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from typing import Literal, get_args

Point = Literal[
    "worker dies before a call",
    "worker dies before a commit",
    "worker dies after a commit",
    "worker dies at an item",
    "worker stops before a call",
    "worker stops after a call",
    "gateway dies before a call",
    "gateway dies before a commit",
    "gateway dies after a commit",
    "gateway stops before a call",
    "gateway stops after a call",
    "all processes die",
    "worker ends cleanly",
    "ledger is locked",
    "ledger's disk is full",
    "answer of a commit is lost",
    "store's disk is full",
    "worker dies within a write",
    "service fails",
    "service is slow",
    "request is lost",
    "answer is lost",
    "request comes twice",
    "stream is cut",
    "clock goes forward",
    "clock goes back",
    "run is cancelled",
    "run is resumed",
    "run is deleted",
]
"""Every place where something can go wrong, or where a user may act at a bad moment."""

POINTS: tuple[Point, ...] = get_args(Point)


_LIKELY = 3.0


class Faults:
    """The decisions of one seed.

    Each seed uses some of the points, each with a rate of its own: with all of them at once, few runs would
    get far enough to meet the rare ones. Those that are ``likely`` have a high rate, whatever the seed says.
    ``has_poison``: whether some items end every worker that takes them.
    """

    def __init__(self, seed: int, likely: Collection[Point] = ()) -> None:
        self.random = random.Random(seed)
        self.are_over = False
        self.has_poison = self.random.random() < 0.25
        self.happened: Counter[Point] = Counter()
        self._rates = {
            point: self.random.choice((0.0, 0.0, 0.3, 1.0, 3.0)) * self.random.random() for point in POINTS
        }
        self._rates |= dict.fromkeys(likely, _LIKELY)

    def occurs(self, point: Point, rate: float) -> bool:
        """Return whether the fault occurs now; ``rate`` is its mean probability."""
        if self.are_over or self.random.random() >= rate * self._rates[point]:
            return False
        self.happened[point] += 1
        return True

    def seconds(self, least: float, most: float) -> float:
        """Draw a duration."""
        return self.random.uniform(least, most)
