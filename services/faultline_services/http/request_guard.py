"""What a service's request must pass: the shared secret, the queue, a deadline."""

from __future__ import annotations

import asyncio
import hmac
import math

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from faultline_core.contract.base import DEADLINE_HEADER, SECRET_HEADER
from faultline_core.errors import DeadlineExceeded, InvalidRequest, RateLimited, Unauthorized
from faultline_services.http.connection import answer_while_connected
from faultline_services.settings import ServiceSettings

HEALTH_PATH = "/healthz"


class RequestGuard:
    """Lets a request through when it carries the secret, the queue has room and its deadline has not passed.

    Only ``/healthz`` is answered without the secret. The deadline is a header in seconds, capped by
    ``request_timeout_s``. Work ends with its deadline, or when its client goes away.
    """

    def __init__(self, app: ASGIApp, *, settings: ServiceSettings) -> None:
        self._app = app
        self._secret = settings.shared_secret().encode()
        self._max_queue = settings.max_queue
        self._timeout_s = settings.request_timeout_s
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The scope's path includes the prefix under which Serve mounts the application.
        if scope["type"] != "http" or scope["path"].removeprefix(scope.get("root_path", "")) == HEALTH_PATH:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        self._check_secret(request)
        seconds = self._seconds(request)
        if self._inside >= self._max_queue:
            raise RateLimited(f"the queue is full ({self._max_queue} requests); retry later")
        self._inside += 1
        try:
            async with asyncio.timeout(seconds):
                await answer_while_connected(self._app, scope, receive, send)
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"{scope['path']!r} took longer than the deadline of {seconds:g} s; send fewer items or "
                f"raise {DEADLINE_HEADER}"
            ) from error
        finally:
            self._inside -= 1

    def _check_secret(self, request: Request) -> None:
        # In constant time, or the secret could be guessed byte by byte.
        if not hmac.compare_digest(request.headers.get(SECRET_HEADER, "").encode(), self._secret):
            raise Unauthorized(
                f"the header {SECRET_HEADER} is missing or wrong; send what FAULTLINE_SECRET_FILE holds"
            )

    def _seconds(self, request: Request) -> float:
        given = request.headers.get(DEADLINE_HEADER)
        if given is None:
            return self._timeout_s
        try:
            seconds = float(given)
        except ValueError:
            seconds = math.nan
        if not math.isfinite(seconds):
            raise InvalidRequest(f"{DEADLINE_HEADER} is {given!r}; send a finite number of seconds")
        if seconds <= 0:
            raise DeadlineExceeded(f"{DEADLINE_HEADER} is {given!r}: the deadline has already passed")
        return min(seconds, self._timeout_s)
