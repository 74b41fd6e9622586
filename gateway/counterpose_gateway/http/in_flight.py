"""How many requests are served at once: one more is refused before anything of it is read.

Requests that plan or store much take turns, so that many at once do not hold up all the others.

Work for a client that may leave: it ends when nobody reads the answer any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, nullcontext
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from counterpose_core.errors import Cancelled
from counterpose_gateway.http.bounds import FairSemaphore, Room, Shares, of_a_tenant, tenant_of
from counterpose_gateway.http.edge import HEALTH_PATHS

_LISTENING = ("/events", "/wait")
"""How the paths end whose answers wait for a run; they take a connection and nearly nothing else."""


class InFlight:
    """Refuses a request where there is no room for it; `ProblemMiddleware` writes the refusal.

    ``counts``: whether it takes a place; else it only looks, before anything of the request is read.
    """

    def __init__(self, app: ASGIApp, *, room: Room, counts: bool = True) -> None:
        self._app = app
        self._room = room
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        bound = bound_of(scope["path"], self._room) if scope["type"] == "http" else None
        if bound is not None and not self._counts and bound.is_full:
            bound.count_refusal()
            raise bound.refusal()
        with bound.held(tenant_of(scope)) if bound is not None and self._counts else nullcontext():
            await self._app(scope, receive, send)


def bound_of(path: str, room: Room) -> Shares | None:
    """Return what bounds requests of a path; None for health."""
    if path in HEALTH_PATHS:
        return None
    return room.listeners if path.endswith(_LISTENING) else room.requests


AT_ONCE = 2
"""One uses the interpreter while the other's commit reaches the disk; each more only adds to every wait."""

TURN_SECONDS = 0.25
"""A request that takes longer waits for a service or stores a large plan; the next one begins beside it."""

MOST = 8
"""Requests in all that have begun: as many as there are threads for them."""

_SHORT = ("/cancel", "/resume")


class Turns:
    """Lets few requests with a body to work on in at a time; the others wait outside, and tenants in turn.

    A plan is made on the event loop and in threads, some milliseconds at a time: two hundred that begin
    together would hold every poll and every refusal for a second, and eight still for tens of milliseconds.
    """

    def __init__(
        self, app: ASGIApp, *, at_once: int = AT_ONCE, most: int = MOST, seconds: float = TURN_SECONDS
    ) -> None:
        self._app = app
        self._turns = FairSemaphore(at_once)
        self._begun = FairSemaphore(most, of_a_tenant(most))
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"].endswith(_SHORT):
            await self._app(scope, receive, send)
            return
        tenant = tenant_of(scope)
        async with self._begun.held(tenant), self._turn(tenant):
            await self._app(scope, receive, send)

    @asynccontextmanager
    async def _turn(self, tenant: str) -> AsyncIterator[None]:
        """Wait for a turn, and hold it until the block ends or its time is over."""
        await self._turns.acquire(tenant)
        held = [self._turns]

        def give_back() -> None:
            while held:
                held.pop().release(tenant)

        over = asyncio.get_running_loop().call_later(self._seconds, give_back)
        try:
            yield
        finally:
            over.cancel()
            give_back()


V = TypeVar("V")


async def while_connected(request: Request, work: Coroutine[Any, Any, V]) -> V:
    """Return what ``work`` returns; it is cancelled as soon as the client has left.

    Raises:
        Cancelled: the client left first; nobody reads the answer.
    """
    doing, left = asyncio.ensure_future(work), asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((doing, left), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise Cancelled("the client left before the answer was ready")
        return doing.result()
    finally:
        for each in (doing, left):
            each.cancel()
        await asyncio.gather(doing, left, return_exceptions=True)


async def _left(request: Request) -> None:
    """Return when the client has left; the request has no body that anyone else reads."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
