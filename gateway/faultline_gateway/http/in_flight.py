"""How many requests are served at once: one more is refused before anything of it is read."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from faultline_core.errors import RateLimited
from faultline_gateway.http.edge import HEALTH_PATHS

_LISTENING = ("/events", ":wait")
"""How the paths end whose answers wait for a run; they take a connection and nearly nothing else."""


class InFlight:
    """Bounds requests in flight, and listeners by themselves; health is always answered.

    `ProblemMiddleware` writes the refusal.
    """

    def __init__(self, app: ASGIApp, *, requests: int, listeners: int) -> None:
        self._app = app
        self._requests = _Bound(requests, "requests", "FAULTLINE_MAX_REQUESTS_IN_FLIGHT")
        self._listeners = _Bound(listeners, "listeners", "FAULTLINE_MAX_LISTENERS")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH_PATHS:
            await self._app(scope, receive, send)
            return
        bound = self._listeners if scope["path"].endswith(_LISTENING) else self._requests
        bound.enter()
        try:
            await self._app(scope, receive, send)
        finally:
            bound.leave()


class _Bound:
    def __init__(self, most: int, what: str, setting: str) -> None:
        self._now = 0
        self._most = most
        self._refusal = f"the gateway serves {most} {what} at once ({setting}); retry in a moment"

    def enter(self) -> None:
        """Count one more.

        Raises:
            RateLimited: there are as many as may be.
        """
        if self._now >= self._most:
            raise RateLimited(self._refusal)
        self._now += 1

    def leave(self) -> None:
        """Count one less."""
        self._now -= 1
