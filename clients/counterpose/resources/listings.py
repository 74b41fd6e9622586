"""What can only be read: ``client.classifiers``, ``client.services`` and ``client.usage()``."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import BaseModel

from counterpose._calls import Call, reading
from counterpose._transport_protocol import AsyncSender, Sender
from counterpose_core.contract.classifiers import ClassifierList
from counterpose_core.contract.services import ServiceList
from counterpose_core.contract.usage import Usage

L = TypeVar("L", bound=BaseModel)

CLASSIFIERS: Call[ClassifierList] = Call(method="GET", path="/v1/classifiers", parse=reading(ClassifierList))
USAGE: Call[Usage] = Call(method="GET", path="/v1/usage", parse=reading(Usage))
SERVICES: Call[ServiceList] = Call(method="GET", path="/v1/services", parse=reading(ServiceList))


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


class Classifiers(Listing[ClassifierList]):
    """``/v1/classifiers``: the classifiers that can be tested."""

    _call = CLASSIFIERS


class AsyncClassifiers(AsyncListing[ClassifierList]):
    """``/v1/classifiers``: the classifiers that can be tested."""

    _call = CLASSIFIERS


class Services(Listing[ServiceList]):
    """``/v1/services``: the services and whether each is ready."""

    _call = SERVICES


class AsyncServices(AsyncListing[ServiceList]):
    """``/v1/services``: the services and whether each is ready."""

    _call = SERVICES
