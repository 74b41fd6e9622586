"""Requests that plan or store much take turns, so that many at once do not hold up all the others."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send

AT_ONCE = 8
"""As many as there are threads for them; more at once would each take longer and finish none earlier."""

_SHORT = (":cancel", ":resume")


class Turns:
    """Lets few requests with a body to work on in at a time; the others wait outside, in their order.

    A plan is made on the event loop, some milliseconds at a time: two hundred that begin together would hold
    every poll and every refusal for a second.
    """

    def __init__(self, app: ASGIApp, *, at_once: int = AT_ONCE) -> None:
        self._app = app
        self._free = asyncio.Semaphore(at_once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"].endswith(_SHORT):
            await self._app(scope, receive, send)
            return
        async with self._free:
            await self._app(scope, receive, send)
