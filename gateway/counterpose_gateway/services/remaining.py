"""For how long a run will go on, which every call of its work tells the service.

A service sees the calls that it holds. It does not see the items that wait in the ledger, and so neither
whether a replica is worth its start nor whether a gap between two calls is the end of the work.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from typing import NamedTuple

from counterpose_core.contract.runs import RequestCounts

REMAINING: ContextVar[float | None] = ContextVar("remaining", default=None)
"""Seconds for which the run that this task works on will go on; None if nobody knows."""
RUN: ContextVar[str | None] = ContextVar("run", default=None)
"""The id of the run that this task works on."""
LOOK_SECONDS = 5.0
"""How often the counts of a run are read."""
WINDOW_SECONDS = 120.0
"""The speed is that of about so long ago until now: replicas come and go."""
RUNS = 1000
"""Runs whose speed is remembered; one that is forgotten is measured again."""


class Seen(NamedTuple):
    """How many items had ended at a moment of a monotonic clock."""

    at: float
    ended: int


class _Speed:
    def __init__(self) -> None:
        self.looks: list[Seen] = []
        self.seconds: float | None = None

    def look(self, now: float, counts: RequestCounts) -> None:
        ended = counts.total - counts.pending
        # One look that is older than the window stays, so that the speed always has two ends.
        while len(self.looks) > 1 and self.looks[1].at <= now - WINDOW_SECONDS:
            del self.looks[0]
        self.looks.append(Seen(now, ended))
        first = self.looks[0]
        done = ended - first.ended
        self.seconds = None if done <= 0 else counts.pending * (now - first.at) / done


class RemainingTimes:
    """The remaining time of each run at its speed of the last two minutes.

    ``counts`` reads a run's counts, or None if they cannot be had now.
    """

    def __init__(
        self, counts: Callable[[str], RequestCounts | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._counts, self._clock = counts, clock
        self._speeds: OrderedDict[str, _Speed] = OrderedDict()

    def of(self, run_id: str) -> float | None:
        """Return the seconds for which a run will go on; None until some of its items have ended."""
        speed = self._speeds.setdefault(run_id, _Speed())
        self._speeds.move_to_end(run_id)
        while len(self._speeds) > RUNS:
            self._speeds.popitem(last=False)
        now = self._clock()
        if not speed.looks or now - speed.looks[-1].at >= LOOK_SECONDS:
            counts = self._counts(run_id)
            if counts is not None:
                speed.look(now, counts)
        return speed.seconds
