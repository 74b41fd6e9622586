"""Answers that wait for their readers: bytes are sent in pieces, and those that wait are bounded together.

An answer that is handed to the connection whole stays in memory for as long as its client likes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from counterpose_core.errors import RateLimited
from counterpose_gateway.http.bounds import Shares
from counterpose_gateway.http.rate_limits import caller_of

PIECE = 262_144
"""Bytes that the connection takes at a time: it wants the next when most of the last have been read."""


class Answers:
    """Sends large answers in pieces, each when the last has been read; `ProblemMiddleware` writes refusals.

    Until an answer's end its request keeps its place, and its bytes are counted.
    """

    def __init__(self, app: ASGIApp, *, unread: Shares) -> None:
        self._app, self._unread = app, unread

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusals: list[RateLimited] = []
        with ExitStack() as held:

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    try:
                        self._count(message, scope, held)
                    except RateLimited as error:
                        # The application has begun its answer and could give no other: it is forgotten.
                        refusals.append(error)
                for piece in () if refusals else in_pieces(message):
                    await send(piece)

            await self._app(scope, receive, sending)
        if refusals:
            raise refusals[0]

    def _count(self, begin: Message, scope: Scope, held: ExitStack) -> None:
        size = int(Headers(raw=begin.get("headers", [])).get("content-length", "0"))
        if size > PIECE:
            held.enter_context(self._unread.held(caller_of(scope), size))


def in_pieces(message: Message) -> Iterator[Message]:
    """Part a body's message into messages of at most `PIECE` bytes."""
    body = message.get("body", b"")
    if len(body) <= PIECE:
        yield message
        return
    whole = memoryview(body)
    for start in range(0, len(body), PIECE):
        last = start + PIECE >= len(body)
        more = message.get("more_body", False) or not last
        yield {**message, "body": bytes(whole[start : start + PIECE]), "more_body": more}
