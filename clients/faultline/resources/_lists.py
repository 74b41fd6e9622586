"""Resources that can only be listed, written once for both clients."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import BaseModel

from faultline._calls import Call
from faultline._transport_protocol import AsyncSender, Sender

L = TypeVar("L", bound=BaseModel)


class Listing(Generic[L]):
    """A list, fetched by a blocking call."""

    _call: Call[L]

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(self) -> L:
        """Return all of them."""
        return self._sender.send(self._call)


class AsyncListing(Generic[L]):
    """A list, fetched by an awaitable call."""

    _call: Call[L]

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(self) -> L:
        """Return all of them."""
        return await self._sender.send(self._call)
