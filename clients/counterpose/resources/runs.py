"""``client.runs``, runs of every kind by id; and what ``client.<kind>s`` offers for runs of one kind."""

from __future__ import annotations

import builtins
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from counterpose._adversarial_dataset_run import AdversarialDataset, AsyncAdversarialDataset
from counterpose._bug_hunt_run import AsyncBugHunt, BugHunt
from counterpose._calls import Call
from counterpose._dataset_interface_run import AsyncDatasetInterface, DatasetInterface
from counterpose._gate_run import AsyncGate, Gate
from counterpose._paging import pages, pages_async
from counterpose._python_function.model import AnyClassifier
from counterpose._run_calls import RunCalls
from counterpose._runs import AsyncRunHandle, RunHandle
from counterpose._shift_benchmark_run import AsyncShiftBenchmark, ShiftBenchmark
from counterpose._stress_test_run import AsyncStressTest, StressTest
from counterpose._transfer_run import AsyncTransfer, Transfer
from counterpose._transport_protocol import AsyncSender, Sender
from counterpose_core.contract.runs import Run
from counterpose_core.errors import InvalidRequest, NotFound
from counterpose_core.types import RunKind

H = TypeVar("H")
R = TypeVar("R", bound=RunHandle[Any, Any])
A = TypeVar("A", bound=AsyncRunHandle[Any, Any])

LAST = "@last"
"""Stands for the id of the run that was created last."""

OneRun = StressTest | DatasetInterface | ShiftBenchmark | BugHunt | AdversarialDataset | Transfer | Gate
OneAsyncRun = (
    AsyncStressTest
    | AsyncDatasetInterface
    | AsyncShiftBenchmark
    | AsyncBugHunt
    | AsyncAdversarialDataset
    | AsyncTransfer
    | AsyncGate
)

_HANDLES: dict[RunKind, type[OneRun]] = {
    "stress-test": StressTest,
    "dataset-interface": DatasetInterface,
    "shift-benchmark": ShiftBenchmark,
    "bug-hunt": BugHunt,
    "adversarial-dataset": AdversarialDataset,
    "transfer": Transfer,
    "gate": Gate,
}
_ASYNC_HANDLES: dict[RunKind, type[OneAsyncRun]] = {
    "stress-test": AsyncStressTest,
    "dataset-interface": AsyncDatasetInterface,
    "shift-benchmark": AsyncShiftBenchmark,
    "bug-hunt": AsyncBugHunt,
    "adversarial-dataset": AsyncAdversarialDataset,
    "transfer": AsyncTransfer,
    "gate": AsyncGate,
}
# An id has 32 digits.
_BEGINNING = re.compile(r"[0-9a-f]{1,31}")


class RunVerbs(ABC, Generic[H]):
    """The verbs that return a run; ``H`` is its handle, or a coroutine of it."""

    _calls: RunCalls[Any, Any]

    def get(self, run_id: str) -> H:
        """Return a run of this kind by its id."""
        return self._take(self._calls.get(run_id))

    @abstractmethod
    def _named(self, classifiers: Sequence[AnyClassifier]) -> dict[str, Any]: ...

    @abstractmethod
    def _take(self, call: Call[Run]) -> H: ...

    @abstractmethod
    def _send(self, call: Call[Any]) -> Any: ...


class RunResource(RunVerbs[R]):
    """Runs of one kind, with blocking calls."""

    _handle: type[R]

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(self) -> Iterator[Run]:
        """Iterate over all runs of this kind, newest first."""
        for page in pages(self._sender, self._calls.list):
            yield from page.runs

    def _named(self, classifiers: Sequence[AnyClassifier]) -> dict[str, Any]:
        return _fields(self._sender, classifiers)

    def _take(self, call: Call[Run]) -> R:
        return self._handle(self._sender, self._sender.send(call))

    def _send(self, call: Call[Any]) -> Any:
        return self._sender.send(call)


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

    def _named(self, classifiers: Sequence[AnyClassifier]) -> dict[str, Any]:
        return _fields(self._sender, classifiers)

    async def _take(self, call: Call[Run]) -> A:
        return self._handle(self._sender, await self._sender.send(call))

    def _send(self, call: Call[Any]) -> Any:
        return self._sender.send(call)


class Runs:
    """Runs of every kind, with blocking calls."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(self, *, kind: RunKind | None = None) -> builtins.list[Run]:
        """Return the runs of every kind, or of one, newest first."""
        found = [
            run
            for handle in _of_kind(_HANDLES, kind)
            for page in pages(self._sender, handle._calls.list)
            for run in page.runs
        ]
        return _newest_first(found)

    def get(self, run: str, *, kind: RunKind | None = None) -> OneRun:
        """Return a run by its id, by the beginning of its id, or by ``@last``.

        Raises:
            NotFound: there is no such run.
            InvalidRequest: several ids begin like this.
        """
        if run == LAST:
            newest = [
                each
                for handle in _of_kind(_HANDLES, kind)
                for each in self._sender.send(handle._calls.list(None, limit=1)).runs
            ]
            return self._handle(_last(newest, kind))
        if is_beginning(run):
            return self._handle(_only(run, self.list(kind=kind)))
        for handle in _of_kind(_HANDLES, kind):
            try:
                return handle(self._sender, self._sender.send(handle._calls.get(run)))
            except NotFound:
                continue
        raise _absent(run)

    def delete(self, run: str) -> None:
        """Delete an ended run, named as for `get`; images that nothing else has go within hours.

        Raises:
            NotFound: there is no such run.
            InvalidRequest: several ids begin like this.
            RunNotDeletable: it has not ended, or it is part of the evidence of a run that exists.
        """
        self.get(run).delete()

    def _handle(self, run: Run) -> OneRun:
        return _HANDLES[run.kind](self._sender, run)


class AsyncRuns:
    """Runs of every kind, with awaitable calls; as `Runs`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(self, *, kind: RunKind | None = None) -> builtins.list[Run]:
        """Return the runs of every kind, or of one, newest first."""
        found = [
            run
            for handle in _of_kind(_ASYNC_HANDLES, kind)
            async for page in pages_async(self._sender, handle._calls.list)
            for run in page.runs
        ]
        return _newest_first(found)

    async def get(self, run: str, *, kind: RunKind | None = None) -> OneAsyncRun:
        """Return a run by its id, by the beginning of its id, or by ``@last``; as `Runs.get`."""
        if run == LAST:
            newest = [
                each
                for handle in _of_kind(_ASYNC_HANDLES, kind)
                for each in (await self._sender.send(handle._calls.list(None, limit=1))).runs
            ]
            return self._handle(_last(newest, kind))
        if is_beginning(run):
            return self._handle(_only(run, await self.list(kind=kind)))
        for handle in _of_kind(_ASYNC_HANDLES, kind):
            try:
                return handle(self._sender, await self._sender.send(handle._calls.get(run)))
            except NotFound:
                continue
        raise _absent(run)

    async def delete(self, run: str) -> None:
        """Delete an ended run; as `Runs.delete`."""
        await (await self.get(run)).delete()

    def _handle(self, run: Run) -> OneAsyncRun:
        return _ASYNC_HANDLES[run.kind](self._sender, run)


def _fields(sender: Sender | AsyncSender, classifiers: Sequence[AnyClassifier]) -> dict[str, Any]:
    """Serve the functions among the classifiers; return the fields of a request that name them all."""
    named = sender.name_functions(sender.serve_functions(classifiers))
    # A gateway older than this field takes a request without functions.
    functions = {"functions": named.functions} if named.functions else {}
    return {"classifiers": named.names, **functions}


def is_beginning(run: str) -> bool:
    """Whether this may be the beginning of an id, and is not a whole one."""
    return _BEGINNING.fullmatch(run) is not None


def _of_kind(handles: dict[RunKind, type[H]], kind: RunKind | None) -> Iterable[type[H]]:
    return handles.values() if kind is None else (handles[kind],)


def _newest_first(runs: Iterable[Run]) -> builtins.list[Run]:
    return sorted(runs, key=lambda run: run.created_at, reverse=True)


def _last(newest: Sequence[Run], kind: RunKind | None) -> Run:
    if not newest:
        raise NotFound(f"{LAST!r} names no run: there is no {kind or 'run'} yet")
    return _newest_first(newest)[0]


def _only(beginning: str, runs: Iterable[Run]) -> Run:
    found = [run for run in runs if run.id.startswith(beginning)]
    if not found:
        raise _absent(beginning)
    if len(found) > 1:
        ids = ", ".join(run.id for run in found[:5])
        raise InvalidRequest(f"{beginning!r} begins the ids of {len(found)} runs: {ids}; give more digits")
    return found[0]


def _absent(run: str) -> NotFound:
    return NotFound(f"no run {run!r}: `counterpose runs list` lists the runs")
