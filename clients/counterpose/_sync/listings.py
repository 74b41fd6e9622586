# Generated from clients/counterpose/_async/listings.py by clients/blocking_half.py; do not edit.
"""What can only be read: ``client.classifiers`` and ``client.services``."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import BaseModel

from counterpose._calls import Call, reading
from counterpose._transport_protocol import Sender
from counterpose_core.contract.classifiers import ClassifierList
from counterpose_core.contract.services import ServiceList

L = TypeVar("L", bound=BaseModel)


class Listing(Generic[L]):
    """A list, fetched by an blocking call."""

    _call: Call[L]

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(self) -> L:
        """Return all of them."""
        return self._sender.send(self._call)


class Classifiers(Listing[ClassifierList]):
    """``/v1/classifiers``: the classifiers that can be tested."""

    _call = Call("GET", "/v1/classifiers", reading(ClassifierList))


class Services(Listing[ServiceList]):
    """``/v1/services``: the services and whether each is ready."""

    _call = Call("GET", "/v1/services", reading(ServiceList))
