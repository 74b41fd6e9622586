"""The HTTP application of every service: health, request guard, cancelled connections, problem documents."""

from __future__ import annotations

import asyncio
import hmac
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from counterpose_core.contract.base import (
    DEADLINE_HEADER,
    REMAINING_HEADER,
    RUN_HEADER,
    SECRET_HEADER,
    TRACE_HEADER,
    ServiceHealth,
)
from counterpose_core.contract.spending import SPENT_HEADER
from counterpose_core.errors import Cancelled, DeadlineExceeded, InvalidRequest, RateLimited, Unauthorized
from counterpose_core.tracing import tracing_to
from counterpose_http import ProblemMiddleware, install_error_handlers
from counterpose_services.call_context import CALLER, Caller
from counterpose_services.openai_api.metering import METER, Meter
from counterpose_services.settings import ServiceName, ServiceSettings

DISCONNECT = "http.disconnect"
HEALTH_PATH = "/healthz"
"""The only path that is answered without the secret: it says that the service is there, and nothing else."""
MOST_DIGITS = 9
"""Of the seconds for which a run goes on: thirty years."""
LONGEST_RUN = 64
"""Characters of a run's id, which is only a name to tell runs apart."""


async def answer_while_connected(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Let ``app`` answer, and cancel it as soon as the client has gone.

    Raises:
        Cancelled: the client disconnected before the answer.
    """
    complete = asyncio.Event()

    async def read() -> Message:
        message = await receive()
        if not message.get("more_body", False):
            complete.set()
        return message

    # A server reports a disconnect only to an application that keeps receiving after the body; FastAPI stops.
    async def leave() -> None:
        await complete.wait()
        while (await receive())["type"] != DISCONNECT:
            pass

    answering = asyncio.ensure_future(app(scope, read, send))
    leaving = asyncio.ensure_future(leave())
    try:
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise Cancelled(f"the client of {scope['path']!r} closed its connection; send the request again")
        await answering
    finally:
        # A deadline or Serve itself may have cancelled the wait: neither task may outlive it.
        answering.cancel()
        leaving.cancel()
        await asyncio.gather(answering, leaving, return_exceptions=True)


class RequestGuard:
    """Passes a request if it has the secret, the queue has room and its deadline has not passed.

    Only `HEALTH_PATH` is answered without the secret. The deadline is a header in seconds, at most
    ``request_timeout_s``. Work ends at its deadline, or when its client disconnects.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: ServiceSettings,
        service: ServiceName,
        told: Callable[[float], None] | None = None,
    ) -> None:
        self._app, self._told, self._service = app, told, service
        self._tracing = tracing_to(settings.otlp_endpoint, f"counterpose-{service}")
        self._secret = settings.shared_secret().encode()
        self._max_queue = settings.of(service).max_queue
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
        self._tell(request)
        run = request.headers.get(RUN_HEADER, "")[:LONGEST_RUN]
        CALLER.set(Caller(run, deadline=time.monotonic() + seconds))
        METER.set(meter := Meter())
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        parent = request.headers.get(TRACE_HEADER)
        # Polls come without one, and a trace of each would say nothing.
        span = nullcontext() if parent is None else self._span(path, parent)
        try:
            async with asyncio.timeout(seconds):
                with span:
                    await answer_while_connected(self._app, scope, receive, _telling(meter, send))
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"{scope['path']!r} took longer than the deadline of {seconds:g} s; send fewer items or "
                f"raise {DEADLINE_HEADER}"
            ) from error
        finally:
            self._inside -= 1

    def _span(self, path: str, parent: str) -> AbstractContextManager[None]:
        return self._tracing.span(f"{self._service} {path}", kind="server", parent=parent)

    def _check_secret(self, request: Request) -> None:
        # In constant time, or the secret could be guessed byte by byte.
        if not hmac.compare_digest(request.headers.get(SECRET_HEADER, "").encode(), self._secret):
            raise Unauthorized(
                f"the header {SECRET_HEADER} is missing or wrong; send what COUNTERPOSE_SECRET_FILE holds"
            )

    def _tell(self, request: Request) -> None:
        given = request.headers.get(REMAINING_HEADER, "")
        # A hint: what is no number is none, and no reason to refuse the work.
        if self._told is not None and given.isdecimal() and len(given) <= MOST_DIGITS:
            self._told(float(given))

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


def _telling(meter: Meter, send: Send) -> Send:
    """Return ``send`` with a header on the answer, failed or not, that says what others were asked for."""

    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start":
            told = (SPENT_HEADER.encode(), meter.spent.model_dump_json().encode())
            message = {**message, "headers": [*message.get("headers", ()), told]}
        await send(message)

    return tell


def service_app(
    name: ServiceName,
    settings: ServiceSettings,
    health: Callable[[], ServiceHealth],
    told: Callable[[float], None] | None = None,
) -> FastAPI:
    """Return an application that answers ``/healthz`` and turns every error into problem+json.

    ``told`` takes for how many seconds the run of a call goes on, where the call says so.
    """
    # FastAPI's documentation pages load scripts from another host.
    app = FastAPI(title=f"Counterpose {name}", docs_url=None, redoc_url=None)
    app.add_middleware(RequestGuard, settings=settings, service=name, told=told)
    # Serve's proxy appends the request id to each response; ours would be a second header.
    app.add_middleware(ProblemMiddleware, server=f"the {name}", add_request_id=False)
    install_error_handlers(app)
    app.add_api_route(HEALTH_PATH, health, response_model=ServiceHealth)
    return app
