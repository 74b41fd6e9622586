"""What every request passes on its way in: an id, a key, a limit on its body, a count."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
import uuid
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from faultline_core.contract.base import REQUEST_ID_HEADER
from faultline_core.errors import (
    FaultlineError,
    InternalError,
    InvalidRequest,
    PayloadTooLarge,
    RequestTimeout,
    Unauthorized,
    UnsupportedMedia,
)
from faultline_gateway.errors import problem_response
from faultline_gateway.metrics import Metrics
from faultline_gateway.settings import GatewaySettings, is_loopback

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
MAX_REQUEST_ID_LENGTH = 128
BODY_SECONDS = 120.0
"""32 MB at 270 kB/s; whoever sends slower than that holds a connection for nothing."""

_logger = logging.getLogger(__name__)


class Edge:
    """Refuses what must not come in, and stamps id and count on whatever is answered."""

    def __init__(self, app: ASGIApp, *, settings: GatewaySettings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._keys = [key.get_secret_value().encode() for key in settings.api_keys]
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        request.state.request_id = _request_id(request)
        answer = _Answer(send, request, self._metrics)
        try:
            self._check_caller(request)
            # Read whole before the application sees it: the limit holds whatever the headers announce.
            body = await _read_body(request, receive, self._settings.max_body_bytes)
            _check_media(request, body)
            await self._app(scope, _Replay(body, receive), answer)
        except Exception as error:  # whatever nobody named must leave as a problem too, and tell nothing
            # Half an answer cannot be mended: a connection that breaks is the only honest end.
            if answer.began:
                raise
            failure = _named(error, request)
            await problem_response(failure, request.state.request_id)(scope, receive, answer)

    def _check_caller(self, request: Request) -> None:
        if request.url.path in OPEN_PATHS:
            return
        if not self._keys:
            _check_host(request)
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        # Every key is compared, so that the time taken tells nothing about which one was close.
        matches = [hmac.compare_digest(given.strip().encode(), key) for key in self._keys]
        if scheme.lower() != "bearer" or not any(matches):
            raise Unauthorized("an API key is needed: Authorization: Bearer <key>")


def _named(error: Exception, request: Request) -> FaultlineError:
    if isinstance(error, FaultlineError):
        return error
    _logger.error("request %s failed", request.state.request_id, exc_info=error)
    return InternalError("the gateway failed on this request")


def _check_host(request: Request) -> None:
    """Without keys only this machine is let in, not a web page that points its own name at it."""
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    if not is_loopback(host):
        raise InvalidRequest(f"the host {host!r} is not this machine's; others need FAULTLINE_API_KEYS")


def _request_id(request: Request) -> str:
    given = request.headers.get(REQUEST_ID_HEADER, "")
    # It goes into logs and headers: only what cannot forge a line there is kept.
    usable = 0 < len(given) <= MAX_REQUEST_ID_LENGTH and given.isascii() and given.isprintable()
    return given if usable else uuid.uuid4().hex


async def _read_body(request: Request, receive: Receive, most: int) -> bytes:
    announced = request.headers.get("content-length", "0")
    # Twenty digits are enough to be too many, and int() takes the square of the length in time.
    if announced.isdecimal() and int(announced[:20]) > most:
        raise PayloadTooLarge(f"the body has more than {most} bytes")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _gather_body(receive, most)
    except TimeoutError as error:
        raise RequestTimeout(f"the body did not come within {BODY_SECONDS:g} s") from error


def _check_media(request: Request, body: bytes) -> None:
    """Refuse a body that is no plain JSON before anything reads it: none is inflated, no form is parsed."""
    if not body:
        return
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedMedia(f"a body comes as it is, not in the encoding {encoding[:40]!r}")
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json" and not (media.startswith("application/") and media.endswith("+json")):
        raise UnsupportedMedia(f"a body is application/json, not {media[:40]!r}")


async def _gather_body(receive: Receive, most: int) -> bytes:
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        more = message.get("more_body", False)
        if size > most:
            raise PayloadTooLarge(f"the body has more than {most} bytes")
    return b"".join(chunks)


class _Replay:
    """Hands the application the body that was read, then whatever the connection says."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._first: Message | None = {"type": "http.request", "body": body, "more_body": False}
        self._receive = receive

    async def __call__(self) -> Message:
        message, self._first = self._first, None
        return message if message is not None else await self._receive()


class _Answer:
    """Sends an answer on with the request's id, and counts it."""

    def __init__(self, send: Send, request: Request, metrics: Metrics) -> None:
        self._send = send
        self._request = request
        self._metrics = metrics
        self._arrived = time.perf_counter()
        self.began = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.began = True
            header = (REQUEST_ID_HEADER.encode(), self._request.state.request_id.encode())
            safety = (b"x-content-type-options", b"nosniff")
            message = {**message, "headers": [*message.get("headers", []), header, safety]}
            self._count(message["status"])
        await self._send(message)

    def _count(self, status: int) -> None:
        # Addresses without a route share one series: each that somebody makes up would be a new one.
        route = getattr(self._request.scope.get("route"), "path", "none")
        seconds = time.perf_counter() - self._arrived
        self._metrics.observe(self._request.method, route, status, seconds)
