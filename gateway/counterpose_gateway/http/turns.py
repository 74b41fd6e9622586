"""Requests that plan or store much take turns, so that many at once do not hold up all the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

AT_ONCE = 2
"""One uses the interpreter while the other's commit reaches the disk; each more only adds to every wait."""

TURN_SECONDS = 0.25
"""A request that takes longer waits for a service or stores a large plan; the next one begins beside it."""

MOST = 8
"""Requests in all that have begun: as many as there are threads for them."""

_SHORT = ("/cancel", "/resume")


class Turns:
    """Lets few requests with a body to work on in at a time; the others wait outside, in their order.

    A plan is made on the event loop and in threads, some milliseconds at a time: two hundred that begin
    together would hold every poll and every refusal for a second, and eight still for tens of milliseconds.
    """

    def __init__(
        self, app: ASGIApp, *, at_once: int = AT_ONCE, most: int = MOST, seconds: float = TURN_SECONDS
    ) -> None:
        self._app = app
        self._turns = asyncio.Semaphore(at_once)
        self._begun = asyncio.Semaphore(most)
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"].endswith(_SHORT):
            await self._app(scope, receive, send)
            return
        async with self._begun, self._turn():
            await self._app(scope, receive, send)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for a turn, and hold it until the block ends or its time is over."""
        await self._turns.acquire()
        held = [self._turns]

        def give_back() -> None:
            while held:
                held.pop().release()

        over = asyncio.get_running_loop().call_later(self._seconds, give_back)
        try:
            yield
        finally:
            over.cancel()
            give_back()
