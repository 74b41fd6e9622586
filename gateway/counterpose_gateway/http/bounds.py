"""What a process holds at once, and how much of it one caller may hold: declared and charged here.

Each bound has a name, by which `/metrics` tells what of it is used and what was refused.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Lock
from typing import NamedTuple

from starlette.types import Scope

from counterpose_core.errors import RateLimited
from counterpose_gateway.http.request_head import caller_in
from counterpose_gateway.images.pixels import PIXELS
from counterpose_gateway.settings import GatewaySettings

ANYBODY = ""
"""The caller of a gateway that wants no key: it may hold all that there is."""

UNKNOWN_BODIES, UNKNOWN_BODIES_OF_ONE = 64, 4
"""Bodies without a key that may be awaited at once, and of one address: forms of the login page."""

MOST_UNREAD, MOST_UNREAD_OF_ONE = 134_217_728, 67_108_864
"""Bytes of large answers that are being sent, and of one address: images, reports, JSON. What is made
while it is sent, such as an export, has a piece in memory alone, and is not counted."""

IMAGES, IMAGES_OF_ONE = 3, 2
"""Requests that decode or encode images at once, and of one tenant: each has one of the few threads, also
while it waits for room for its pixels, and lists and polls need those that are left."""

EXPORTS, EXPORTS_OF_ONE = 4, 2
"""Exports of runs that are written and sent at once, and of one tenant: each is a whole copy on the disk."""


class Use(NamedTuple):
    """What a process holds of a bound now, how much it may hold, and how often it refused more."""

    name: str
    now: int
    most: int
    refusals: int


class Shares:
    """So much of something at once, and of one caller a part of it, so that none shuts out the others."""

    def __init__(self, name: str, most: int, of_one: int, what: str) -> None:
        self.name, self.most, self._of_one = name, most, of_one
        self._refusal = f"{what}; retry in a moment"
        self._held: dict[str, int] = {}
        self._now = self._refusals = 0
        # Routes hold theirs in threads.
        self._lock = Lock()

    @property
    def now(self) -> int:
        """How much all callers hold together."""
        return self._now

    @property
    def is_full(self) -> bool:
        """Whether one more would be refused, whoever asks."""
        return self._now >= self.most

    @property
    def use(self) -> Use:
        """What is held of it, for the metrics."""
        return Use(self.name, self._now, self.most, self._refusals)

    @contextmanager
    def held(self, caller: str = ANYBODY, amount: int = 1) -> Iterator[None]:
        """Hold an amount for a caller until the block ends; raises as `enter`."""
        self.enter(caller, amount)
        try:
            yield
        finally:
            self.leave(caller, amount)

    def enter(self, caller: str = ANYBODY, amount: int = 1) -> None:
        """Count what a caller holds from now on; one that holds nothing may hold any amount by itself.

        Raises:
            RateLimited: all callers together, or this one, would hold too much.
        """
        with self._lock:
            own, together = self._held.get(caller, 0), self._now
            beyond_own = caller != ANYBODY and own and own + amount > self._of_one
            if not beyond_own and not (together and together + amount > self.most):
                self._held[caller] = own + amount
                self._now += amount
                return
            self._refusals += 1
        raise self.refusal()

    def leave(self, caller: str = ANYBODY, amount: int = 1) -> None:
        """Count less of what a caller holds."""
        with self._lock:
            self._now -= amount
            left = self._held.pop(caller) - amount
            if left:
                self._held[caller] = left

    def refusal(self) -> RateLimited:
        """Return what one more is answered."""
        return RateLimited(self._refusal)

    def count_refusal(self) -> None:
        """Count one that was refused before it was to `enter`."""
        with self._lock:
            self._refusals += 1


def of_a_tenant(most: int) -> int:
    """Return how much of a bound one tenant may hold: three quarters, so that others find room."""
    return most - most // 4


class Room:
    """The bounds of one process on what its callers hold at once; health is always answered.

    A request takes its place when its body is there: until then it is one of the ``awaited`` of its caller.
    ``turned_away`` is told the method of each request that is refused before the application sees it.
    """

    def __init__(
        self, settings: GatewaySettings, *, turned_away: Callable[[str], None] = lambda method: None
    ) -> None:
        self.turned_away = turned_away
        most, listeners = settings.max_requests_in_flight, settings.max_listeners
        self.requests = _of_tenants("requests", most, "requests", "COUNTERPOSE_MAX_REQUESTS_IN_FLIGHT")
        self.listeners = _of_tenants("listeners", listeners, "listeners", "COUNTERPOSE_MAX_LISTENERS")
        waits = "the gateway waits for as many bodies of requests as it may"
        self.awaited = Shares(
            "awaited-bodies", 2 * most, most, f"{waits} (COUNTERPOSE_MAX_REQUESTS_IN_FLIGHT)"
        )
        self.unknown = Shares(
            "bodies-without-key", UNKNOWN_BODIES, UNKNOWN_BODIES_OF_ONE, f"{waits} without a key"
        )
        self.body_bytes = bodies_together(settings.max_bodies_bytes)
        self.unread = Shares(
            "unread-bytes",
            MOST_UNREAD,
            MOST_UNREAD_OF_ONE,
            "answers that nobody has read yet take all the room for them",
        )
        self.exports = exports_at_once()
        self.images = FairSemaphore(IMAGES, IMAGES_OF_ONE)

    @property
    def uses(self) -> list[Use]:
        """What is held of each bound."""
        shares = (
            self.requests,
            self.listeners,
            self.awaited,
            self.unknown,
            self.body_bytes,
            self.unread,
            self.exports,
        )
        return [*(each.use for each in shares), Use("pixels", PIXELS.now, PIXELS.most, 0)]


def bodies_together(most: int) -> Shares:
    """Return the bound on the bytes of all bodies that are held."""
    own = of_a_tenant(most)
    what = f"the bodies of all requests together have more than {most} bytes now, or a tenant's {own}"
    return Shares("body-bytes", most, own, f"{what} (COUNTERPOSE_MAX_BODIES_BYTES)")


def exports_at_once() -> Shares:
    """Return the bound on exports of one process."""
    return Shares(
        "exports",
        EXPORTS,
        EXPORTS_OF_ONE,
        f"{EXPORTS_OF_ONE} exports of a tenant and {EXPORTS} in all are sent at once",
    )


def _of_tenants(name: str, most: int, what: str, setting: str) -> Shares:
    own = of_a_tenant(most)
    return Shares(
        name, most, own, f"the gateway serves {most} {what} at once, and of a tenant {own} ({setting})"
    )


def tenant_of(scope: Scope) -> str:
    """Return by whom a request is charged: its tenant's name, or `ANYBODY` without a key."""
    caller = caller_in(scope)
    return caller.tenant if caller.has_key else ANYBODY


class FairSemaphore:
    """So many at once; the others wait, and each caller that waits gets a turn after the other.

    ``of_one``: how many turns a caller with a name may hold; default: all.
    """

    def __init__(self, most: int, of_one: int | None = None) -> None:
        self._free, self._of_one = most, most if of_one is None else of_one
        self._held: dict[str, int] = {}
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def held(self, caller: str = ANYBODY) -> AsyncIterator[None]:
        """Wait for a turn, and hold it until the block ends."""
        await self.acquire(caller)
        try:
            yield
        finally:
            self.release(caller)

    async def acquire(self, caller: str = ANYBODY) -> None:
        """Wait for a turn, and hold it until `release`."""
        if self._free and self._may_hold_more(caller):
            self._take(caller)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(caller)
            raise

    def release(self, caller: str = ANYBODY) -> None:
        """End a turn, and begin the next."""
        self._free += 1
        self._held[caller] -= 1
        if not self._held[caller]:
            del self._held[caller]
        for waiting in [each for each in self._waiting if self._may_hold_more(each)]:
            line = self._waiting.pop(waiting)
            while line and line[0].done():
                # It was cancelled while it waited.
                line.popleft()
            if not line:
                continue
            self._take(waiting)
            line.popleft().set_result(None)
            if line:
                self._waiting[waiting] = line
            return

    def _may_hold_more(self, caller: str) -> bool:
        return caller == ANYBODY or self._held.get(caller, 0) < self._of_one

    def _take(self, caller: str) -> None:
        self._free -= 1
        self._held[caller] = self._held.get(caller, 0) + 1
