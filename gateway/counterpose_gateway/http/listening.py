"""Work for a client that may leave: it ends when nobody reads the answer any more."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

from counterpose_core.errors import Cancelled

V = TypeVar("V")


async def while_connected(request: Request, work: Coroutine[Any, Any, V]) -> V:
    """Return what ``work`` returns; it is cancelled as soon as the client has left.

    Raises:
        Cancelled: the client left first; nobody reads the answer.
    """
    doing, left = asyncio.ensure_future(work), asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((doing, left), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise Cancelled("the client left before the answer was ready")
        return doing.result()
    finally:
        for each in (doing, left):
            each.cancel()
        await asyncio.gather(doing, left, return_exceptions=True)


async def _left(request: Request) -> None:
    """Return when the client has left; the request has no body that anyone else reads."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
