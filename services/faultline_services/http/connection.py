"""A request that is worked on for as long as its client is there."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from faultline_core.errors import Cancelled

DISCONNECT = "http.disconnect"


async def answer_while_connected(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Let ``app`` answer; cancel it as soon as the client has gone.

    Raises:
        Cancelled: the client went first.
    """
    whole = asyncio.Event()

    async def read() -> Message:
        message = await receive()
        if not message.get("more_body", False):
            whole.set()
        return message

    # A server tells of a disconnect only to one who goes on listening after the body; FastAPI stops there.
    async def leave() -> None:
        await whole.wait()
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
