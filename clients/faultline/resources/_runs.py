"""What ``client.<kind>s`` offers for every kind of run: get one by its id, list all."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from typing import Any, Generic, TypeVar

from faultline._calls import Call
from faultline._paging import pages, pages_async
from faultline._run_calls import RunCalls
from faultline._runs import AsyncRunHandle, RunHandle
from faultline._transport_protocol import AsyncSender, Sender
from faultline_core.contract.runs import Run

H = TypeVar("H")
R = TypeVar("R", bound=RunHandle[Any, Any])
A = TypeVar("A", bound=AsyncRunHandle[Any, Any])


class RunVerbs(ABC, Generic[H]):
    """The verbs that return a run; ``H`` is its handle, or a coroutine of it."""

    _calls: RunCalls[Any, Any]

    def get(self, run_id: str) -> H:
        """Return a run of this kind by its id."""
        return self._take(self._calls.get(run_id))

    @abstractmethod
    def _serve_functions(self, classifiers: Sequence[str]) -> list[str]: ...

    @abstractmethod
    def _take(self, call: Call[Run]) -> H: ...


class RunResource(RunVerbs[R]):
    """Runs of one kind, with blocking calls."""

    _handle: type[R]

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(self) -> Iterator[Run]:
        """Iterate over all runs of this kind, newest first."""
        for page in pages(self._sender, self._calls.list):
            yield from page.runs

    def _serve_functions(self, classifiers: Sequence[str]) -> builtins.list[str]:
        return self._sender.serve_functions(classifiers)

    def _take(self, call: Call[Run]) -> R:
        return self._handle(self._sender, self._sender.send(call))


class AsyncRunResource(RunVerbs[Coroutine[Any, Any, A]], Generic[A]):
    """Runs of one kind, with awaitable calls."""

    _handle: type[A]

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(self) -> AsyncIterator[Run]:
        """Iterate over all runs of this kind, newest first."""
        async for page in pages_async(self._sender, self._calls.list):
            for run in page.runs:
                yield run

    def _serve_functions(self, classifiers: Sequence[str]) -> builtins.list[str]:
        return self._sender.serve_functions(classifiers)

    async def _take(self, call: Call[Run]) -> A:
        return self._handle(self._sender, await self._sender.send(call))
