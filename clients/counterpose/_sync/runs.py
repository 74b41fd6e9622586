# Generated from clients/counterpose/_async/runs.py by clients/blocking_half.py; do not edit.
"""``client.runs``: runs of every kind by id."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Sequence
from typing import get_args

from counterpose._sync.adversarial_datasets import AdversarialDataset
from counterpose._sync.bug_hunts import BugHunt
from counterpose._sync.dataset_interfaces import DatasetInterface
from counterpose._sync.gates import Gate
from counterpose._sync.paging import pages
from counterpose._sync.shift_benchmarks import ShiftBenchmark
from counterpose._sync.stress_tests import StressTest
from counterpose._sync.transfers import Transfer
from counterpose._transport_protocol import Sender
from counterpose_core.contract.runs import Run
from counterpose_core.errors import InvalidRequest, NotFound
from counterpose_core.types import RunKind

LAST = "@last"
"""Stands for the id of the run that was created last."""

OneRun = StressTest | DatasetInterface | ShiftBenchmark | BugHunt | AdversarialDataset | Transfer | Gate
KINDS: dict[RunKind, type[OneRun]] = {each._calls.kind: each for each in get_args(OneRun)}
"""The handle of each kind of run."""

# An id has 32 digits.
_BEGINNING = re.compile(r"[0-9a-f]{1,31}")


class Runs:
    """Runs of every kind, with blocking calls."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(self, *, kind: RunKind | None = None) -> builtins.list[Run]:
        """Return the runs of every kind, or of one, newest first."""
        found = [
            run
            for handle in _of_kind(kind)
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
            newest = list[Run]()
            for handle in _of_kind(kind):
                first = self._sender.send(handle._calls.list(None, limit=1))
                newest += first.runs
            return self._handle(_last(newest, kind))
        if is_beginning(run):
            return self._handle(_only(run, self.list(kind=kind)))
        for handle in _of_kind(kind):
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
        found = self.get(run)
        found.delete()

    def _handle(self, run: Run) -> OneRun:
        return KINDS[run.kind](self._sender, run)


def is_beginning(run: str) -> bool:
    """Whether this may be the beginning of an id, and is not a whole one."""
    return _BEGINNING.fullmatch(run) is not None


def _of_kind(kind: RunKind | None) -> Iterable[type[OneRun]]:
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
