"""The middleware that makes a span of each request that changes something."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from counterpose_core.contract.base import TRACE_HEADER
from counterpose_core.tracing import TRACE, Tracing

_UNTRACED = ("GET", "HEAD", "OPTIONS")
"""Polls: a span of each would say nothing and cost more than its answer."""


class Traced:
    """Makes a span of a request, a child of its caller's, and tells it to what goes on after the answer."""

    def __init__(self, app: ASGIApp, *, tracing: Tracing) -> None:
        self._app, self._tracing = app, tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._tracing.is_on or scope["type"] != "http" or scope["method"] in _UNTRACED:
            await self._app(scope, receive, send)
            return
        # What follows the collection's name is an id.
        collection = "/".join(scope["path"].split("/")[:3])
        parent = Headers(scope=scope).get(TRACE_HEADER)
        with self._tracing.span(f"{scope['method']} {collection}", kind="server", parent=parent):
            TRACE.set(self._tracing.current())
            await self._app(scope, receive, send)
