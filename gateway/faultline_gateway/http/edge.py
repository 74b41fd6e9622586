"""The checks that every request passes before the application sees it: key, origin, body size, media type."""

from __future__ import annotations

import hmac
from collections import Counter
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from faultline_core.errors import (
    InvalidRequest,
    Unauthorized,
    UnsupportedMedia,
)
from faultline_core.types import is_loopback
from faultline_gateway.http.bodies import Bodies, Limit
from faultline_gateway.http.origin import require_own_origin
from faultline_gateway.http.ranges import without_ranges
from faultline_gateway.http.request_head import host_of
from faultline_gateway.http.sessions import COOKIE, Sessions
from faultline_gateway.settings import GatewaySettings

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/ui/login"})
HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
PAGES, STATIC = "/ui", "/ui/static/"
FORM = Limit(10_000, "fixed for forms")
"""A form of the pages has a name or a key in it, and nothing else."""
FORM_MEDIA = "application/x-www-form-urlencoded"


class Edge:
    """Refuses callers without a key, foreign pages and bodies that no route reads.

    `ProblemMiddleware` writes the answer. A browser's session is as good as a key for the pages alone.
    """

    def __init__(self, app: ASGIApp, *, settings: GatewaySettings, sessions: Sessions | None = None) -> None:
        self._app = app
        self._keys = [key.get_secret_value().encode() for key in settings.api_keys]
        self._sessions = sessions or Sessions(self._keys)
        self._bodies = Bodies(settings.max_bodies_bytes, settings.concurrent_uploads)
        self._any_body = Limit(settings.max_body_bytes, "FAULTLINE_MAX_BODY_BYTES")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        host = host_of(request.headers)
        if self._keys and _wants_login(request) and not self._may_browse(request):
            await _to_login(request)(scope, receive, send)
            return
        self._check_caller(request, host)
        _require_each_once(request)
        require_own_origin(request.method, request.headers, must_tell=COOKIE in request.cookies)
        limit = FORM if is_page(request.url.path) else self._any_body
        # Read completely before the application sees it, so that the limit holds whatever the headers say.
        async with self._bodies.reading(request.headers, receive, limit) as body:
            _check_media(request, body.size)
            await self._app(scope, body.replay, without_ranges(send))

    def _check_caller(self, request: Request, host: str) -> None:
        path = request.url.path
        # Health is asked by machines of any name; a page must not be reached under a foreign name.
        if not self._keys and path not in HEALTH_PATHS:
            _check_host(host)
        if not self._keys or path in OPEN_PATHS or path.startswith(STATIC):
            return
        if is_page(path) and self._may_browse(request):
            return
        if not self._has_key(request):
            raise Unauthorized(
                "the API key is missing or unknown; send it in the header 'Authorization: Bearer <key>'"
            )

    def _has_key(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        # Every key is compared, so that the time taken does not show which key was close.
        matches = [hmac.compare_digest(given.strip().encode(), key) for key in self._keys]
        return scheme.lower() == "bearer" and any(matches)

    def _may_browse(self, request: Request) -> bool:
        return self._sessions.is_valid(request.cookies.get(COOKIE, ""))


def is_page(path: str) -> bool:
    """Whether a path is one of the pages' own, which no program calls."""
    return path == PAGES or path.startswith(f"{PAGES}/")


def _wants_login(request: Request) -> bool:
    path = request.url.path
    opened = path in OPEN_PATHS or path.startswith(STATIC) or "authorization" in request.headers
    return request.method == "GET" and is_page(path) and not opened


def _to_login(request: Request) -> Response:
    if "hx-request" in request.headers:
        # A script that polls follows no redirect: the page itself must go.
        return Response(status_code=401, headers={"hx-redirect": f"{PAGES}/login"})
    query = urlencode({"next": request.url.path})
    return RedirectResponse(f"{PAGES}/login?{query}", 303, {"cache-control": "no-store"})


def _require_each_once(request: Request) -> None:
    """Refuse a parameter that is given twice, of which a route would read the last one alone."""
    given = Counter(name for name, _ in request.query_params.multi_items())
    for name, times in given.most_common(1):
        if times > 1:
            raise InvalidRequest(f"the parameter {name[:40]!r} is given {times} times; give it once")


def _check_host(host: str) -> None:
    """Without keys, admit only this machine, and no web page whose own name resolves to it."""
    if not is_loopback(host):
        raise InvalidRequest(
            f"the Host header names {host!r}, not this machine; set FAULTLINE_API_KEYS to serve other hosts"
        )


def _check_media(request: Request, size: int) -> None:
    """Refuse a body that is not plain JSON before it is read: nothing is decompressed, forms are of pages."""
    if not size:
        return
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedMedia(
            f"Content-Encoding {encoding[:40]!r} is not supported; send the body unencoded"
        )
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media == FORM_MEDIA and is_page(request.url.path):
        return
    if media != "application/json" and not (media.startswith("application/") and media.endswith("+json")):
        raise UnsupportedMedia(f"Content-Type {media[:40]!r} is not supported; send application/json")
