"""The HTTP shell that every service shares: the secret, the queue, deadlines, problem+json."""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from faultline_core.contract.base import (
    DEADLINE_HEADER,
    PROBLEM_MEDIA_TYPE,
    REQUEST_ID_HEADER,
    SECRET_HEADER,
    FieldProblem,
    Problem,
    ServiceHealth,
)
from faultline_core.errors import (
    DeadlineExceeded,
    FaultlineError,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    RateLimited,
    Unauthorized,
)
from faultline_services.connection import answer_while_connected

if TYPE_CHECKING:
    from faultline_services.settings import ServiceSettings

HEALTH_PATH = "/healthz"
# Serve's backpressure names one figure for all; a caller that is refused again waits longer by itself.
RETRY_AFTER_SECONDS = 1
# It is written to logs and echoed: room for any trace id, none for a payload.
MAX_REQUEST_ID_LENGTH = 128

logger = logging.getLogger(__name__)


def service_app(title: str, settings: ServiceSettings, health: Callable[[], ServiceHealth]) -> FastAPI:
    """Return an application that answers ``/healthz`` and turns every error into problem+json."""
    # FastAPI's documentation pages load scripts from another host.
    app = FastAPI(title=f"Faultline {title}", docs_url=None, redoc_url=None)
    app.add_middleware(Gate, settings=settings)
    app.add_exception_handler(FaultlineError, _on_faultline_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.get(HEALTH_PATH)(_answering(health))
    return app


def _answering(health: Callable[[], ServiceHealth]) -> Callable[[], ServiceHealth]:
    def healthz() -> ServiceHealth:
        return health()

    return healthz


class Gate:
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
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        request_id = _request_id(request)
        scope.setdefault("state", {})["request_id"] = request_id
        answer = _Answer(send)
        try:
            await self._pass(request, receive, answer)
        except Exception as error:
            # Errors of the tree are raised on purpose and say all there is; only others need their stack.
            if not isinstance(error, FaultlineError):
                logger.exception("request %s failed", request_id)
            # What has been sent cannot be taken back: the connection must break.
            if answer.started:
                raise
            await problem_response(_named(error), request_id)(scope, receive, answer)

    async def _pass(self, request: Request, receive: Receive, answer: _Answer) -> None:
        # The scope's path is relative to where Serve mounts the application.
        if request.scope["path"].removeprefix(request.scope.get("root_path", "")) == HEALTH_PATH:
            await self._app(request.scope, receive, answer)
            return
        self._check_secret(request)
        seconds = self._seconds(request)
        if self._inside >= self._max_queue:
            raise RateLimited(f"{self._inside} requests are waiting already")
        self._inside += 1
        try:
            async with asyncio.timeout(seconds):
                await answer_while_connected(self._app, request.scope, receive, answer)
        except TimeoutError as error:
            raise DeadlineExceeded(f"no answer within {seconds:g} s") from error
        finally:
            self._inside -= 1

    def _check_secret(self, request: Request) -> None:
        # In constant time, or the secret could be guessed byte by byte.
        if not hmac.compare_digest(request.headers.get(SECRET_HEADER, "").encode(), self._secret):
            raise Unauthorized("the shared secret is missing or wrong")

    def _seconds(self, request: Request) -> float:
        given = request.headers.get(DEADLINE_HEADER)
        if given is None:
            return self._timeout_s
        try:
            seconds = float(given)
        except ValueError:
            seconds = math.nan
        if not math.isfinite(seconds):
            raise InvalidRequest(f"{DEADLINE_HEADER} is {given!r}, not a number of seconds")
        if seconds <= 0:
            raise DeadlineExceeded("the deadline had passed when the request came")
        return min(seconds, self._timeout_s)


class _Answer:
    """Sends an answer on and knows whether it has begun; its id is put on it by Serve's proxy."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        self.started = self.started or message["type"] == "http.response.start"
        await self._send(message)


def _named(error: Exception) -> FaultlineError:
    return error if isinstance(error, FaultlineError) else InternalError("the service failed on this request")


def _request_id(request: Request) -> str:
    given = request.headers.get(REQUEST_ID_HEADER, "")
    usable = 0 < len(given) <= MAX_REQUEST_ID_LENGTH and given.isascii() and given.isprintable()
    return given if usable else uuid.uuid4().hex


def problem_response(
    error: FaultlineError, request_id: str | None, errors: Sequence[FieldProblem] = ()
) -> JSONResponse:
    """Return ``error`` as problem+json, with Retry-After where trying again makes sense."""
    problem = Problem.of(error, request_id=request_id)
    if errors:
        problem = problem.model_copy(update={"errors": list(errors)})
    headers = {"retry-after": str(RETRY_AFTER_SECONDS)} if error.status in (429, 503) else None
    return JSONResponse(
        problem.model_dump(mode="json"), error.status, headers=headers, media_type=PROBLEM_MEDIA_TYPE
    )


def _id_of(request: Request) -> str | None:
    return getattr(request.state, "request_id", None)


async def _on_faultline_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, FaultlineError)  # registered for it
    return problem_response(error, _id_of(request))


async def _on_invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # registered for it
    found = [
        FieldProblem(pointer="/" + "/".join(str(part) for part in one["loc"][1:]), detail=one["msg"])
        for one in error.errors()
    ]
    first = found[0]
    return problem_response(InvalidRequest(f"{first.pointer}: {first.detail}"), _id_of(request), found)


async def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # registered for it
    named: dict[int, type[FaultlineError]] = {404: NotFound, 405: MethodNotAllowed}
    kind = named.get(error.status_code, InvalidRequest)
    return problem_response(kind(f"{request.method} {request.url.path!r}"), _id_of(request))
