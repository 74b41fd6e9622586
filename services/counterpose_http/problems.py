"""Errors as RFC 9457 problem documents, and the outer middleware that assigns request ids."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from counterpose_core.contract.base import PROBLEM_MEDIA_TYPE, REQUEST_ID_HEADER, FieldProblem, Problem
from counterpose_core.errors import CounterposeError, InternalError, RateLimited, Unauthorized

RETRY_AFTER_SECONDS = 2
"""A burst is over by then. A dead replica is back after about 7 s, which is three tries of its callers."""
MAX_REQUEST_ID_LENGTH = 128
"""Long enough for any trace id, too short to carry a payload into the log."""
_logger = logging.getLogger(__name__)


def problem_response(
    error: CounterposeError, request_id: str | None, errors: Sequence[FieldProblem] = ()
) -> Response:
    """Describe ``error`` as problem+json.

    ``Retry-After`` is sent exactly if the document says ``retryable``: the status alone does not distinguish
    a temporary limit (`rate-limited`) from a permanent one (`quota-exceeded`), which both have 429.
    """
    problem = Problem.of(error, request_id=request_id)
    if errors:
        problem = problem.model_copy(update={"errors": list(errors)})
    known = error.retry_after_s if isinstance(error, RateLimited) else None
    headers = {"retry-after": str(known or RETRY_AFTER_SECONDS)} if error.retryable else {}
    # RFC 9110 requires a challenge on each 401.
    if isinstance(error, Unauthorized):
        headers["www-authenticate"] = "Bearer"
    return Response(problem.model_dump_json(), error.status, headers, PROBLEM_MEDIA_TYPE)


class ProblemMiddleware:
    """Assigns request ids and answers every exception raised inside with a problem document.

    ``server`` names the answering process in the text of an internal error. ``add_request_id`` is off behind
    Ray Serve, whose proxy adds the same header to every response.
    """

    def __init__(self, app: ASGIApp, *, server: str, add_request_id: bool = True) -> None:
        self._app = app
        self._server = server
        self._add_request_id = add_request_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _assign_request_id(scope)
        response = _Response(send, request_id if self._add_request_id else None)
        try:
            await self._app(scope, receive, response)
        except Exception as error:  # no stack trace may reach the client
            failure = self._name(error, request_id)
            # After the response has started, we can only abort the connection.
            if response.started:
                raise
            await problem_response(failure, request_id)(scope, receive, response)

    def _name(self, error: Exception, request_id: str) -> CounterposeError:
        if isinstance(error, CounterposeError):
            return error
        # Counterpose's errors are complete; only an unexpected error needs its stack.
        _logger.error("request %s failed", request_id, exc_info=error)
        return InternalError(
            f"{self._server} failed on request {request_id!r}; its log has the cause under this id"
        )


class _Response:
    """Sends a response with the common headers and records whether it has started."""

    def __init__(self, send: Send, request_id: str | None) -> None:
        self._send = send
        self._headers = [(b"x-content-type-options", b"nosniff")]
        if request_id is not None:
            self._headers.append((REQUEST_ID_HEADER.encode(), request_id.encode()))
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            message = {**message, "headers": [*message.get("headers", []), *self._headers]}
        await self._send(message)


def request_id_of(request: Request) -> str | None:
    """Return the id that the middleware gave to ``request``, or None if no middleware ran."""
    return getattr(request.state, "request_id", None)


def _assign_request_id(scope: Scope) -> str:
    """Keep the caller's request id if it is safe to log, otherwise make one; store it in ``scope``."""
    given = HTTPConnection(scope).headers.get(REQUEST_ID_HEADER, "")
    # The id is written to logs and headers, where a line break could forge a line.
    # An id must not repeat, and need not be secret: the system's own random numbers cost a call each.
    usable = 0 < len(given) <= MAX_REQUEST_ID_LENGTH and given.isascii() and given.isprintable()
    request_id = given if usable else f"{random.getrandbits(128):032x}"
    scope.setdefault("state", {})["request_id"] = request_id
    return request_id
