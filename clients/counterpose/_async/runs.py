"""``client.runs``: runs of every kind by id."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Sequence
from typing import get_args

from counterpose._async.adversarial_datasets import AsyncAdversarialDataset
from counterpose._async.bug_hunts import AsyncBugHunt
from counterpose._async.dataset_interfaces import AsyncDatasetInterface
from counterpose._async.gates import AsyncGate
from counterpose._async.paging import pages
from counterpose._async.shift_benchmarks import AsyncShiftBenchmark
from counterpose._async.stress_tests import AsyncStressTest
from counterpose._async.transfers import AsyncTransfer
from counterpose._transport_protocol import AsyncSender
from counterpose_core.contract.runs import Run
from counterpose_core.errors import InvalidRequest, NotFound
from counterpose_core.types import RunKind

LAST = "@last"
"""Stands for the id of the run that was created last."""

AsyncOneRun = (
    AsyncStressTest
    | AsyncDatasetInterface
    | AsyncShiftBenchmark
    | AsyncBugHunt
    | AsyncAdversarialDataset
    | AsyncTransfer
    | AsyncGate
)
KINDS: dict[RunKind, type[AsyncOneRun]] = {each._calls.kind: each for each in get_args(AsyncOneRun)}
"""The handle of each kind of run."""

# An id has 32 digits.
_BEGINNING = re.compile(r"[0-9a-f]{1,31}")


class AsyncRuns:
    """Runs of every kind, with awaitable calls."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(self, *, kind: RunKind | None = None) -> builtins.list[Run]:
        """Return the runs of every kind, or of one, newest first."""
        found = [
            run
            for handle in _of_kind(kind)
            async for page in pages(self._sender, handle._calls.list)
            for run in page.runs
        ]
        return _newest_first(found)

    async def get(self, run: str, *, kind: RunKind | None = None) -> AsyncOneRun:
        """Return a run by its id, by the beginning of its id, or by ``@last``.

        Raises:
            NotFound: there is no such run.
            InvalidRequest: several ids begin like this.
        """
        if run == LAST:
            newest = list[Run]()
            for handle in _of_kind(kind):
                first = await self._sender.send(handle._calls.list(None, limit=1))
                newest += first.runs
            return self._handle(_last(newest, kind))
        if is_beginning(run):
            return self._handle(_only(run, await self.list(kind=kind)))
        for handle in _of_kind(kind):
            try:
                return handle(self._sender, await self._sender.send(handle._calls.get(run)))
            except NotFound:
                continue
        raise _absent(run)

    async def delete(self, run: str) -> None:
        """Delete an ended run, named as for `get`; images that nothing else has go within hours.

        Raises:
            NotFound: there is no such run.
            InvalidRequest: several ids begin like this.
            RunNotDeletable: it has not ended, or it is part of the evidence of a run that exists.
        """
        found = await self.get(run)
        await found.delete()

    def _handle(self, run: Run) -> AsyncOneRun:
        return KINDS[run.kind](self._sender, run)


def is_beginning(run: str) -> bool:
    """Whether this may be the beginning of an id, and is not a whole one."""
    return _BEGINNING.fullmatch(run) is not None


def _of_kind(kind: RunKind | None) -> Iterable[type[AsyncOneRun]]:
    return KINDS.values() if kind is None else (KINDS[kind],)


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
