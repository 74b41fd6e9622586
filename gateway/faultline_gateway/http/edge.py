"""The checks that every request passes before the application sees it: API key, body size, media type."""

from __future__ import annotations

import asyncio
import hmac
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from faultline_core.errors import (
    InvalidRequest,
    PayloadTooLarge,
    RequestTimeout,
    Unauthorized,
    UnsupportedMedia,
)
from faultline_core.types import is_loopback
from faultline_gateway.settings import GatewaySettings

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
BODY_SECONDS = 120.0
"""Enough for 32 MB at 270 kB/s; a slower client would only occupy a connection."""


class Edge:
    """Refuses callers without a key and bodies that no route reads; `ProblemMiddleware` writes the answer."""

    def __init__(self, app: ASGIApp, *, settings: GatewaySettings) -> None:
        self._app = app
        self._settings = settings
        self._keys = [key.get_secret_value().encode() for key in settings.api_keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        self._check_caller(request)
        # Read completely before the application sees it, so that the limit holds whatever the headers say.
        body = await _read_body(request, receive, self._settings.max_body_bytes)
        _check_media(request, body)
        await self._app(scope, _Replay(body, receive), send)

    def _check_caller(self, request: Request) -> None:
        if request.url.path in OPEN_PATHS:
            return
        if not self._keys:
            _check_host(request)
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        # Every key is compared, so that the time taken does not show which key was close.
        matches = [hmac.compare_digest(given.strip().encode(), key) for key in self._keys]
        if scheme.lower() != "bearer" or not any(matches):
            raise Unauthorized(
                "the API key is missing or unknown; send it in the header 'Authorization: Bearer <key>'"
            )


def _check_host(request: Request) -> None:
    """Without keys, admit only this machine, and no web page whose own name resolves to it."""
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    if not is_loopback(host):
        raise InvalidRequest(
            f"the Host header names {host!r}, not this machine; set FAULTLINE_API_KEYS to serve other hosts"
        )


async def _read_body(request: Request, receive: Receive, most: int) -> bytes:
    announced = request.headers.get("content-length", "0")
    # Twenty digits are always too many, and the time of int() grows with the square of their number.
    if announced.isdecimal() and int(announced[:20]) > most:
        raise PayloadTooLarge(f"the body is larger than the limit of {most} bytes; send it in parts")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _gather_body(receive, most)
    except TimeoutError as error:
        raise RequestTimeout(
            f"the body did not arrive within {BODY_SECONDS:g} s; send it faster or in smaller parts"
        ) from error


def _check_media(request: Request, body: bytes) -> None:
    """Refuse a body that is not plain JSON before it is read: nothing is decompressed, no form is parsed."""
    if not body:
        return
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedMedia(
            f"Content-Encoding {encoding[:40]!r} is not supported; send the body unencoded"
        )
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json" and not (media.startswith("application/") and media.endswith("+json")):
        raise UnsupportedMedia(f"Content-Type {media[:40]!r} is not supported; send application/json")


async def _gather_body(receive: Receive, most: int) -> bytes:
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        more = message.get("more_body", False)
        if size > most:
            raise PayloadTooLarge(f"the body is larger than the limit of {most} bytes; send it in parts")
    return b"".join(chunks)


class _Replay:
    """Passes the body to the application, which was read already, and then the connection's messages."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._first: Message | None = {"type": "http.request", "body": body, "more_body": False}
        self._receive = receive

    async def __call__(self) -> Message:
        message, self._first = self._first, None
        return message if message is not None else await self._receive()
