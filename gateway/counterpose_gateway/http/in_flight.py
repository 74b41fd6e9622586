"""How many requests are served at once: one more is refused before anything of it is read.

Requests that plan or store much take turns, so that many at once do not hold up all the others.

Work for a client that may leave: it ends when nobody reads the answer any more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Lock
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from counterpose_core.errors import Cancelled, RateLimited
from counterpose_gateway.http.edge import HEALTH_PATHS

_LISTENING = ("/events", "/wait")
"""How the paths end whose answers wait for a run; they take a connection and nearly nothing else."""


class Bound:
    """So many requests of one kind at once."""

    def __init__(self, most: int, what: str, setting: str) -> None:
        self._now = 0
        self._most = most
        self._refusal = f"the gateway serves {most} {what} at once ({setting}); retry in a moment"

    @property
    def now(self) -> int:
        """How many there are."""
        return self._now

    @property
    def is_full(self) -> bool:
        """Whether one more would be refused."""
        return self._now >= self._most

    def enter(self) -> None:
        """Count one more.

        Raises:
            RateLimited: there are as many as may be.
        """
        if self.is_full:
            raise self.refusal()
        self._now += 1

    def leave(self) -> None:
        """Count one less."""
        self._now -= 1

    def refusal(self) -> RateLimited:
        """Return what one more is answered."""
        return RateLimited(self._refusal)


class Shares:
    """So much of something at once, and of one caller a part of it, so that none shuts out the others."""

    def __init__(self, most: int, of_one: int, what: str) -> None:
        self._most, self._of_one, self._what = most, of_one, what
        self._held = Counter[str]()
        # Routes hold theirs in threads.
        self._lock = Lock()

    @property
    def now(self) -> int:
        """How much all callers hold together."""
        return self._held.total()

    @contextmanager
    def held(self, caller: str, amount: int = 1) -> Iterator[None]:
        """Hold an amount for a caller until the block ends; one that holds nothing may hold any amount.

        Raises:
            RateLimited: all callers together, or this one, would hold too much.
        """
        with self._lock:
            own, together = self._held[caller], self.now
            if (own and own + amount > self._of_one) or (together and together + amount > self._most):
                raise RateLimited(f"{self._what}; retry in a moment")
            self._held[caller] += amount
        try:
            yield
        finally:
            with self._lock:
                self._held[caller] -= amount
                # A counter keeps callers that hold nothing.
                self._held = +self._held


EXPORTS, EXPORTS_OF_ONE = 4, 2
"""Exports of runs that are written and sent at once, and of one tenant: each is a whole copy on the disk."""


def exports_at_once() -> Shares:
    """Return the bound on exports of one process."""
    return Shares(
        EXPORTS, EXPORTS_OF_ONE, f"{EXPORTS_OF_ONE} exports of a tenant and {EXPORTS} in all are sent at once"
    )


UNKNOWN_BODIES, UNKNOWN_BODIES_OF_ONE = 64, 4
"""Bodies without a key that may be awaited at once, and of one address: forms of the login page."""


class Room:
    """The bounds on requests in flight, and on listeners by themselves; health is always answered.

    A request takes its place when its body is there: until then it is one of the ``awaited`` of its caller.
    ``turned_away`` is told the method of each request that is refused before the application sees it.
    """

    def __init__(
        self, *, requests: int, listeners: int, turned_away: Callable[[str], None] = lambda method: None
    ) -> None:
        self.turned_away = turned_away
        self.requests = Bound(requests, "requests", "COUNTERPOSE_MAX_REQUESTS_IN_FLIGHT")
        self.listeners = Bound(listeners, "listeners", "COUNTERPOSE_MAX_LISTENERS")
        waits = "the gateway waits for as many bodies of requests as it may"
        self.awaited = Shares(2 * requests, requests, f"{waits} (COUNTERPOSE_MAX_REQUESTS_IN_FLIGHT)")
        self.unknown = Shares(UNKNOWN_BODIES, UNKNOWN_BODIES_OF_ONE, f"{waits} without a key")

    def bound_of(self, path: str) -> Bound | None:
        """Return what bounds requests of a path; None for health."""
        if path in HEALTH_PATHS:
            return None
        return self.listeners if path.endswith(_LISTENING) else self.requests


class InFlight:
    """Refuses a request where there is no room for it; `ProblemMiddleware` writes the refusal.

    ``counts``: whether it takes a place; else it only looks, before anything of the request is read.
    """

    def __init__(self, app: ASGIApp, *, room: Room, counts: bool = True) -> None:
        self._app = app
        self._room = room
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        bound = self._room.bound_of(scope["path"]) if scope["type"] == "http" else None
        if bound is None or (not self._counts and not bound.is_full):
            await self._app(scope, receive, send)
            return
        bound.enter()
        try:
            await self._app(scope, receive, send)
        finally:
            bound.leave()


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
