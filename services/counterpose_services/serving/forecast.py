"""What a replica knows of the work to come: for how long its callers' runs go on, and how busy it is."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

TOLD_SECONDS = 60.0
"""What was told is forgotten after so long without a call: the run may have ended, or need other services."""
MOST_TOLD = 256


class Forecast:
    """Keeps what calls tell; ``clock`` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: deque[tuple[float, float]] = deque(maxlen=MOST_TOLD)
        self._calls, self._busy, self._since, self._asked = 0, 0.0, 0.0, clock()

    def tell(self, seconds: float) -> None:
        """Take for how long the run of a call goes on."""
        now = self._clock()
        self._told.append((now, now + seconds))

    def remaining(self) -> float | None:
        """Return for how long the longest run of late goes on, in seconds; None if no call has told."""
        now = self._clock()
        while self._told and self._told[0][0] < now - TOLD_SECONDS:
            self._told.popleft()
        return max((end - now for _, end in self._told), default=None)

    def begin(self) -> None:
        """Note that a call begins."""
        self._calls += 1
        if self._calls == 1:
            self._since = self._clock()

    def end(self) -> None:
        """Note that a call has ended."""
        self._calls -= 1
        if self._calls == 0:
            self._busy += self._clock() - self._since

    def busy(self) -> float:
        """Return the share of the time since the last question in which there was a call, in [0, 1]."""
        now = self._clock()
        if self._calls:
            self._busy += now - self._since
            self._since = now
        share = self._busy / max(now - self._asked, 1e-9)
        self._busy, self._asked = 0.0, now
        return min(share, 1.0)
