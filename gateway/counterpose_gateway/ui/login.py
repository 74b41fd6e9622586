"""``/ui/login``: exchange an API key for a session, once a day and browser; ``/ui/logout``: end it."""

from __future__ import annotations

import asyncio
import re

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from counterpose_core.errors import Unauthorized
from counterpose_gateway.http.request_head import session_in
from counterpose_gateway.http.sessions import (
    LIFETIME_SECONDS,
    OF_HTTPS,
    SessionCookie,
    cookie_without_tls,
    cookies_of,
)
from counterpose_gateway.routes.context import Context, GatewayContext
from counterpose_gateway.ui.environment import Form, PageRoute, page

router = APIRouter(prefix="/ui", route_class=PageRoute)

# Only a page of ours: an address that a stranger wrote into a link must not receive who just signed in.
_OWN_PAGE = re.compile(r"/ui(/(?!\.+(/|$))[A-Za-z0-9._-]+)*")


@router.get("/login")
async def ask_for_key(request: Request, context: Context, next: str = "/ui") -> Response:
    """Ask for the API key, where one is needed."""
    if not await context.ring.wants_key():
        return RedirectResponse("/ui", 303)
    return page(request, "login.html.j2", goal=own_page(next), refused=False)


@router.post("/login")
async def sign_in(request: Request, context: Context, form: Form) -> Response:
    """Answer a known key with a session; the key itself is kept nowhere."""
    goal = own_page(form.get("next", ""))
    session = await _session(context, form.get("key", "").strip())
    if session is None:
        return page(request, "login.html.j2", status=401, goal=goal, refused=True)
    answer = RedirectResponse(goal, 303)
    # Behind a proxy that ends TLS, only the browser's own word for this page has the scheme.
    has_tls = "https" in (request.url.scheme, request.headers.get("origin", "").partition(":")[0])
    _set(answer, OF_HTTPS if has_tls else cookie_without_tls(request.headers), session, LIFETIME_SECONDS)
    return answer


@router.post("/logout")
async def sign_out(request: Request, context: Context) -> Response:
    """End the session at every gateway, whoever has a copy of it, and take it from this browser."""
    if (session := session_in(request.scope)) is not None:
        await context.ring.end(session)
    answer = RedirectResponse("/ui/login", 303)
    _set(answer, cookies_of(request)[0], "", 0)
    return answer


def _set(answer: Response, cookie: SessionCookie, session: str, seconds: int) -> None:
    answer.set_cookie(
        cookie.name, session, max_age=seconds, path=cookie.path, secure=cookie.is_secure, httponly=True,
        samesite="strict",
    )  # fmt: skip


async def _session(context: GatewayContext, given: str) -> str | None:
    """Return a session for a key of the settings or of the ledger, or None for any other."""
    # In a thread: the first one derives keys slowly.
    if (session := await asyncio.to_thread(context.sessions.open, given)) is not None:
        return session
    try:
        holder = await context.ring.holder(given)
    except Unauthorized:
        return None
    key = await context.ring.holder_of_id(holder.id)
    return None if key is None else context.sessions.open_for(key)


def own_page(path: str) -> str:
    """The path if it is one of our pages, else the first page."""
    return path if _OWN_PAGE.fullmatch(path) else "/ui"
