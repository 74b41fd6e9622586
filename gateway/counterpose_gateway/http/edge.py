"""The checks that every request passes before the application sees it: key, origin, body size, media type."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from counterpose_core.errors import (
    Forbidden,
    InvalidRequest,
    MalformedRequest,
    PayloadTooLarge,
    SignedUrlRefused,
    Unauthorized,
    UnsupportedMedia,
)
from counterpose_core.types import is_loopback
from counterpose_gateway.access.key_ring import OF_SETTINGS, Holder, KeyRing
from counterpose_gateway.access.key_watch import KeyWatch
from counterpose_gateway.http.bodies import (
    BODY_SECONDS,
    UNKNOWN_SECONDS,
    Bodies,
    Limit,
    has_body,
)
from counterpose_gateway.http.bounds import ANYBODY, Room
from counterpose_gateway.http.rate_limits import CallerLimits, caller_of
from counterpose_gateway.http.request_head import (
    SAFE_METHODS,
    bearer,
    host_of,
    require_own_origin,
    tell_caller,
)
from counterpose_gateway.http.sessions import Sessions, cookies_of, number_of
from counterpose_gateway.http.signed_urls import SignedUrls
from counterpose_gateway.records.access_keys import AccessEntry
from counterpose_gateway.settings import GatewaySettings

SIGN_IN = "/ui/login"
OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", SIGN_IN})
HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
PAGES, STATIC = "/ui", "/ui/static/"
SIGN_OUT = "/ui/logout"
"""Changes nothing but the browser's own session."""
MOST_PATH = 500
FORM = Limit(10_000, "fixed for forms")
"""A form of the pages has a name or a key in it, and nothing else."""
FORM_MEDIA = "application/x-www-form-urlencoded"
_ACCEPT_RANGES = b"accept-ranges"


class Edge:
    """Refuses callers without a key, foreign pages and bodies that no route reads.

    `ProblemMiddleware` writes the answer. A browser's session is as good as a key for the pages alone. Each
    change that the holder of a key asks for is given to ``note``, with its answer.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: GatewaySettings,
        sessions: Sessions | None = None,
        ring: KeyRing | None = None,
        note: Callable[[AccessEntry], None] | None = None,
        links: SignedUrls | None = None,
        has_pages: bool = True,
        room: Room | None = None,
    ) -> None:
        self._app = app
        keys = [key.get_secret_value().encode() for key in settings.api_keys]
        self._ring = ring or KeyRing(keys)
        self._watch = KeyWatch(self._ring)
        self._sessions = sessions or Sessions(keys)
        self._note = note
        self._links = links
        self._has_pages = has_pages
        self._room = room or Room(settings)
        self._limits = CallerLimits(settings)
        self._bodies = Bodies(self._room.body_bytes, settings.concurrent_uploads)
        self._any_body = Limit(settings.max_body_bytes, "COUNTERPOSE_MAX_BODY_BYTES")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        host = host_of(request.headers)
        wants_key = await self._ring.wants_key()
        if wants_key and self._has_pages and _wants_login(request) and await self._browser(request) is None:
            await _to_login(request)(scope, receive, send)
            return
        signs_in = wants_key and request.method == "POST" and request.url.path == SIGN_IN
        if signs_in:
            self._limits.require_address(scope)
        holder = await self._caller(request, host, wants_key=wants_key)
        _require_each_once(request)
        require_own_origin(request.method, request.headers, must_tell=bool(cookies_of(request)[1]))
        limit = FORM if is_page(request.url.path) else self._any_body
        known = holder is not None or not wants_key
        if not known and not signs_in and has_body(request.headers):
            raise PayloadTooLarge(f"{request.url.path[:MOST_PATH]} takes no body; send none")
        awaited = self._awaited(request, holder, known=known)
        seconds = BODY_SECONDS if known else UNKNOWN_SECONDS
        # Read completely before the application sees it, so that the limit holds whatever the headers say.
        payer = ANYBODY if holder is None else holder.tenant
        async with self._bodies.reading(request.headers, receive, limit, awaited, seconds, payer) as body:
            _check_media(request, body.size)
            answered = _Answered(without_ranges(send))
            tell_caller(scope, holder)
            try:
                # What changes something is ended by nobody half-way.
                async with self._watch.watched(holder if request.method in SAFE_METHODS else None):
                    await self._app(scope, body.replay, answered)
            finally:
                if signs_in and answered.status == Unauthorized.status:
                    self._limits.count_refusal(scope)
                if holder is not None:
                    await self._log(holder, request, answered.status)

    def _awaited(
        self, request: Request, holder: Holder | None, *, known: bool
    ) -> AbstractContextManager[None]:
        """What counts a body until it is there: without a key its address, which may have few."""
        bodies = self._room.awaited if known else self._room.unknown
        return bodies.held(caller_of(request.scope) if holder is None else holder.id)

    async def _caller(self, request: Request, host: str, *, wants_key: bool) -> Holder | None:
        path = request.url.path
        # Health is asked by machines of any name; a page must not be reached under a foreign name.
        if not wants_key and path not in HEALTH_PATHS:
            _check_host(host)
        if not wants_key or path in OPEN_PATHS or path.startswith(STATIC):
            return None
        holder = await self._browser(request) if is_page(path) else None
        if holder is None:
            holder = await self._holder(request)
        self._limits.serve(request.scope, holder.id)
        try:
            if path != SIGN_OUT:
                _require_scope(holder, request)
        except Forbidden as error:
            await self._log(holder, request, error.status)
            raise
        return holder

    async def _holder(self, request: Request) -> Holder:
        try:
            if self._links is not None and self._links.is_link(request):
                return await self._links.holder(request)
            return await self._ring.holder(bearer(request.headers))
        except (SignedUrlRefused, Unauthorized):
            self._limits.refuse(request.scope)
            raise

    async def _browser(self, request: Request) -> Holder | None:
        """Return whose session the browser has, if any.

        Raises:
            MalformedRequest: it sent two cookies of our name.
        """
        cookie, sent = cookies_of(request)
        if len(sent) > 1:
            raise MalformedRequest(
                f"the browser sent {len(sent)} cookies {cookie.name!r}, of which another server has set one; "
                "delete this host's cookies there, then sign in again"
            )
        holder = await self._of_session(sent[0]) if sent else None
        if holder is None or holder.session is None or await self._ring.has_ended(holder.session):
            return None
        return holder

    async def _of_session(self, session: str) -> Holder | None:
        if self._sessions.is_valid(session):
            return Holder(OF_SETTINGS, session=number_of(session))
        key_id = self._sessions.key_id(session)
        key = None if key_id is None else await self._ring.holder_of_id(key_id)
        if key is None or not self._sessions.is_signed_by(key, session):
            return None
        return Holder(key.id, key.scopes, key.tenant, number_of(session))

    async def _log(self, holder: Holder, request: Request, status: int) -> None:
        if self._note is not None and request.method not in SAFE_METHODS:
            entry = AccessEntry(
                dt.datetime.now(dt.UTC),
                holder.id,
                request.method,
                request.url.path[:MOST_PATH],
                status,
                holder.tenant,
            )
            await asyncio.to_thread(self._note, entry)


class _Answered:
    """Passes an answer on, and remembers its status; 500 if there is none."""

    def __init__(self, send: Send) -> None:
        self._send, self.status = send, 500

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


def is_page(path: str) -> bool:
    """Whether a path is one of the pages' own, which no program calls."""
    return path == PAGES or path.startswith(f"{PAGES}/")


def _require_scope(holder: Holder, request: Request) -> None:
    wanted = "read" if request.method in SAFE_METHODS else "write"
    if wanted not in holder.scopes:
        raise Forbidden(
            f"the API key {holder.id} has the scope {', '.join(holder.scopes)}, and {request.method} needs "
            f"{wanted!r}; ask the operator for a key that has it"
        )


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
            f"the Host header names {host!r}, not this machine; set COUNTERPOSE_API_KEYS to serve other hosts"
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


def without_ranges(send: Send) -> Send:
    """Return ``send`` that tells the caller not to ask for ranges, unless the answer says otherwise.

    No ranges of bytes are served (RFC 9110, section 14.3): results and exports are made while they are sent,
    so a range of one would be of another. Results resume by ``from``, and a Range header is ignored, as the
    standard lets a server do.
    """

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            if all(name.lower() != _ACCEPT_RANGES for name, _ in headers):
                headers.append((_ACCEPT_RANGES, b"none"))
            message = {**message, "headers": headers}
        await send(message)

    return sending
