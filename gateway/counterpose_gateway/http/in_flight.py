"""How many requests are served at once: one more is refused before anything of it is read."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from counterpose_core.errors import RateLimited
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


class Room:
    """The bounds on requests in flight, and on listeners by themselves; health is always answered.

    ``turned_away`` is told the method of each request that is refused before the application sees it.
    """

    def __init__(
        self, *, requests: int, listeners: int, turned_away: Callable[[str], None] = lambda method: None
    ) -> None:
        self.turned_away = turned_away
        self.requests = Bound(requests, "requests", "COUNTERPOSE_MAX_REQUESTS_IN_FLIGHT")
        self.listeners = Bound(listeners, "listeners", "COUNTERPOSE_MAX_LISTENERS")

    def bound_of(self, path: str) -> Bound | None:
        """Return what bounds requests of a path; None for health."""
        if path in HEALTH_PATHS:
            return None
        return self.listeners if path.endswith(_LISTENING) else self.requests


class InFlight:
    """Refuses a request where there is no room for it; `ProblemMiddleware` writes the refusal."""

    def __init__(self, app: ASGIApp, *, room: Room) -> None:
        self._app = app
        self._room = room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        bound = self._room.bound_of(scope["path"]) if scope["type"] == "http" else None
        if bound is None:
            await self._app(scope, receive, send)
            return
        bound.enter()
        try:
            await self._app(scope, receive, send)
        finally:
            bound.leave()
