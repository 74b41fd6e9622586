"""How many calls a process makes to one service at once.

A call that waits in a service's queue spends its deadline there; here it waits without one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

SLOW = 0.5
"""A call that takes more than this share of its deadline waited behind too many others."""
FAST = 0.125
"""After a call that takes less than this share of its deadline, one more may run beside it."""


class CallLimit:
    """Lets as many calls to one service run as it asks for, and fewer while they come near their deadline.

    ``clock`` returns monotonic seconds. Without a number from the service, every call may run.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told: int | None = None
        self._changed = clock()
        self._running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.calls: int | None = None
        """Most calls at once now, or None for any number."""

    def tell(self, calls: int | None) -> None:
        """Take the number of calls that keep the service busy; None if it does not say."""
        if calls == self._told:
            return
        self._told = self.calls = calls
        self._changed = self._clock()
        self._admit()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place among the calls that run, first come first served, and hold it."""
        # A call that comes while others wait goes behind them.
        if self._waiting or self._full():
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                # Cancelled after its turn had come: the place goes to the next.
                if turn.done() and not turn.cancelled():
                    self._leave()
                raise
        else:
            self._running += 1
        try:
            yield
        finally:
            self._leave()

    def took(self, seconds: float, deadline: float) -> None:
        """Note how long a call took: a slow one halves the number, a fast one raises it by one.

        Calls that began before the number changed say nothing about it.
        """
        now = self._clock()
        if self.calls is None or self._told is None or now - seconds < self._changed:
            return
        if seconds > SLOW * deadline:
            wanted = max(1, self.calls // 2)
        elif seconds < FAST * deadline:
            wanted = min(self._told, self.calls + 1)
        else:
            return
        if wanted != self.calls:
            self.calls, self._changed = wanted, now
            self._admit()

    def _full(self) -> bool:
        return self.calls is not None and self._running >= self.calls

    def _leave(self) -> None:
        self._running -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and not self._full():
            turn = self._waiting.popleft()
            if not turn.done():
                self._running += 1
                turn.set_result(None)
