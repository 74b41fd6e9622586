"""What a resource needs from its client: send a call, stream it, serve a function."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Protocol, TypeVar

import httpx

from counterpose._calls import Call
from counterpose._python_function.local_functions import NamedClassifiers

if TYPE_CHECKING:
    from counterpose._python_function.model import AnyClassifier

T = TypeVar("T")

# Protocols, not the clients themselves: clients import resources, and resources import this.


class _Serving(Protocol):
    """What both clients do without a request."""

    @property
    def address(self) -> str:
        """The gateway's address, without a slash at its end."""

    def serve_functions(self, classifiers: Sequence[AnyClassifier]) -> list[str]:
        """Serve the functions and models among them and return each one's spec."""

    def name_functions(self, specs: Sequence[str]) -> NamedClassifiers:
        """Name the served functions among them, and part them from their addresses."""

    def functions_named(self, names: Sequence[str]) -> dict[str, str]:
        """Return the addresses of those that are functions of this client."""


class Sender(_Serving, Protocol):
    """The blocking client."""

    def send(self, call: Call[T]) -> T:
        """Send the call and parse the response."""

    def stream(self, call: Call[T]) -> AbstractContextManager[httpx.Response]:
        """Open the call as a byte stream."""


class AsyncSender(_Serving, Protocol):
    """The asyncio client."""

    async def send(self, call: Call[T]) -> T:
        """Send the call and parse the response."""

    def stream(self, call: Call[T]) -> AbstractAsyncContextManager[httpx.Response]:
        """Open the call as a byte stream."""
