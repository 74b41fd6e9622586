"""What can only be read: ``client.classifiers`` and ``client.services``."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import BaseModel

from counterpose._calls import Call, reading
from counterpose._transport_protocol import AsyncSender
from counterpose_core.contract.classifiers import ClassifierList
from counterpose_core.contract.services import ServiceList

L = TypeVar("L", bound=BaseModel)


class AsyncListing(Generic[L]):
    """A list, fetched by an awaitable call."""

    _call: Call[L]

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(self) -> L:
        """Return all of them."""
        return await self._sender.send(self._call)


class AsyncClassifiers(AsyncListing[ClassifierList]):
    """``/v1/classifiers``: the classifiers that can be tested."""

    _call = Call("GET", "/v1/classifiers", reading(ClassifierList))


class AsyncServices(AsyncListing[ServiceList]):
    """``/v1/services``: the services and whether each is ready."""

    _call = Call("GET", "/v1/services", reading(ServiceList))
