"""What a resource asks of its client: send a call, open it as a stream, serve a function."""

from __future__ import annotations

from collections.abc import Sequence
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

    def served(self, classifiers: Sequence[str]) -> list[str]:
        """Serve the Python functions among them, and say how a gateway calls each."""
        ...


class AsyncSender(Protocol):
    """The asyncio client."""

    async def send(self, call: Call[T]) -> T:
        """Send and read."""
        ...

    def stream(self, call: Call[T]) -> AbstractAsyncContextManager[httpx.Response]:
        """Open as a stream."""
        ...

    def served(self, classifiers: Sequence[str]) -> list[str]:
        """Serve the Python functions among them, and say how a gateway calls each."""
        ...
