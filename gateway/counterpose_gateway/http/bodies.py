"""Bodies of requests: each is read whole within its limit, and all that are held at once within another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from counterpose_core.errors import Cancelled, PayloadTooLarge, RequestTimeout
from counterpose_gateway.http.bounds import ANYBODY, FairSemaphore, Shares

BODY_SECONDS = 120.0
"""Enough for 32 MB at 270 kB/s; a slower client would only occupy a connection."""

UNKNOWN_SECONDS = 5.0
"""Enough for a form; nothing else is sent without a key."""

UNCOUNTED: AbstractContextManager[None] = nullcontext()

LARGE = 256_000
"""Bytes from which on a body waits for its turn: those of images do, and hardly any others."""


@dataclass(frozen=True)
class Limit:
    """The most bytes of one body, and the setting that says so."""

    most: int
    setting: str

    def refusal(self) -> PayloadTooLarge:
        """Return the error of a larger body."""
        return PayloadTooLarge(
            f"the body is larger than the limit of {self.most} bytes ({self.setting}); send it in parts"
        )


def has_body(headers: Headers) -> bool:
    """Whether a request announces a body (RFC 9112, section 6)."""
    return "transfer-encoding" in headers or headers.get("content-length", "0").strip("0") != ""


class Bodies:
    """Counts the bytes of all bodies from their arrival until their request is answered.

    Each is bounded, but not their number: twenty clients with 24 MB each would take half a gigabyte. Of the
    requests with large bodies, ``at_once`` are answered at a time, and the others wait for their turn: what
    an application makes of an image takes ten times its bytes.
    """

    def __init__(self, together: Shares, at_once: int = 2) -> None:
        self.together = together
        self._turns = FairSemaphore(at_once)

    @asynccontextmanager
    async def reading(
        self,
        headers: Headers,
        receive: Receive,
        limit: Limit,
        awaited: AbstractContextManager[None] = UNCOUNTED,
        seconds: float = BODY_SECONDS,
        caller: str = ANYBODY,
    ) -> AsyncIterator[Body]:
        """Read the whole body, and hold its bytes until the block ends.

        Args:
            headers: of the request.
            receive: gives the body's parts.
            limit: of its bytes.
            awaited: held until the body is there; not where there is none.
            seconds: in which it must be there.
            caller: who is charged for its bytes.

        Raises:
            Cancelled: the client left before its end.
            PayloadTooLarge: it is larger than the limit.
            RateLimited: with it, more bytes would be held than all bodies together may have.
            RequestTimeout: it did not arrive in time.
        """
        announced = headers.get("content-length", "0")
        # Twenty digits are always too many, and the time of int() grows with the square of their number.
        if announced.isdecimal() and int(announced[:20]) > limit.most:
            raise limit.refusal()
        body = Body(receive, limit, self.together, caller)
        try:
            with awaited if has_body(headers) else nullcontext():
                await body.gather(seconds)
            async with self._turns.held(caller) if body.size > LARGE else nullcontext():
                yield body
        finally:
            body.forget()


class Body:
    """The body of one request; ``size`` is the number of its bytes."""

    def __init__(self, receive: Receive, limit: Limit, together: Shares, caller: str) -> None:
        self._receive = receive
        self._limit = limit
        self._together, self._caller = together, caller
        self._chunks: list[bytes] | None = []
        self.size = 0

    async def gather(self, seconds: float) -> None:
        """Receive all of it; raises as `Bodies.reading` does."""
        try:
            async with asyncio.timeout(seconds):
                await self._gather()
        except TimeoutError as error:
            raise RequestTimeout(
                f"the body did not arrive within {seconds:g} s; send it faster or in smaller parts"
            ) from error

    async def _gather(self) -> None:
        chunks, more = self._chunks, True
        assert chunks is not None  # it is not replayed before it is gathered
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise Cancelled("the client left before the body's end")
            chunk = message.get("body", b"")
            if self.size + len(chunk) > self._limit.most:
                raise self._limit.refusal()
            if chunk:
                self._together.enter(self._caller, len(chunk))
            self.size += len(chunk)
            chunks.append(chunk)
            more = message.get("more_body", False)

    def forget(self) -> None:
        """Let the bytes go now: an error's traceback would hold them until the garbage is collected."""
        if self.size:
            self._together.leave(self._caller, self.size)
        if self._chunks is not None:
            self._chunks.clear()

    async def replay(self) -> Message:
        """Pass the body to the application, and then the connection's messages."""
        if self._chunks is None:
            return await self._receive()
        # Forgotten here, so that it is not held beside what the application makes of it.
        chunks, self._chunks = self._chunks, None
        return {"type": "http.request", "body": b"".join(chunks), "more_body": False}
