"""How full the calls of the editor's network were lately: the number that says whether it has work enough."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

WINDOW_S = 60.0
"""Seconds that the share looks back; it is asked for each half minute."""


class RecentOccupancy:
    """The share of offered rows that were used since a look of about a minute ago.

    ``rows`` returns how many rows the network's calls had so far and how many they could have had, ``clock``
    monotonic seconds.
    """

    def __init__(self, rows: Callable[[], tuple[int, int]], clock: Callable[[], float]) -> None:
        self._rows, self._clock = rows, clock
        self._looks = deque([(clock(), rows())])

    def look(self) -> float | None:
        """Return the share in [0, 1], or None if there was no call."""
        now, rows = self._clock(), self._rows()
        # One look that is older than the window stays, so that the share always has two ends.
        while len(self._looks) > 1 and self._looks[1][0] <= now - WINDOW_S:
            self._looks.popleft()
        used, offered = (last - first for last, first in zip(rows, self._looks[0][1], strict=True))
        self._looks.append((now, rows))
        return used / offered if offered > 0 else None
