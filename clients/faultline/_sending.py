"""What a resource asks of its client: send a call, or open it as a stream."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol, TypeVar

import httpx

from faultline._calls import Call

T = TypeVar("T")

# Protocols and not the clients themselves: a client imports its resources, and they import this.


class Sender(Protocol):
    """The blocking client."""

    def send(self, call: Call[T]) -> T:
        """Send and read."""
        ...

    def stream(self, call: Call[T]) -> AbstractContextManager[httpx.Response]:
        """Open as a stream."""
        ...


class AsyncSender(Protocol):
    """The asyncio client."""

    async def send(self, call: Call[T]) -> T:
        """Send and read."""
        ...

    def stream(self, call: Call[T]) -> AbstractAsyncContextManager[httpx.Response]:
        """Open as a stream."""
        ...
