# Generated from clients/counterpose/_async/runs.py by clients/blocking_half.py; do not edit.
"""``client.runs``: runs of every kind by id."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import get_args

from counterpose._run_ids import LAST, absent_run, is_beginning, last_run, only_run
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
from counterpose_core.errors import NotFound
from counterpose_core.types import RunKind

OneRun = StressTest | DatasetInterface | ShiftBenchmark | BugHunt | AdversarialDataset | Transfer | Gate
KINDS: dict[RunKind, type[OneRun]] = {each._calls.kind: each for each in get_args(OneRun)}
"""The handle of each kind of run."""


class Runs:
    """Runs of every kind, with blocking calls."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(self, *, kind: RunKind | None = None) -> builtins.list[OneRun]:
        """Return the runs of every kind, or of one, newest first."""
        found = [
            handle(self._sender, run)
            for handle in _of_kind(kind)
            for page in pages(self._sender, handle._calls.list)
            for run in page.runs
        ]
        return sorted(found, key=lambda each: each.run.created_at, reverse=True)

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
            return self._handle(last_run(newest, kind))
        if is_beginning(run):
            listed = self.list(kind=kind)
            return self._handle(only_run(run, [each.run for each in listed]))
        for handle in _of_kind(kind):
            try:
                return handle(self._sender, self._sender.send(handle._calls.get(run)))
            except NotFound:
                continue
        raise absent_run(run)

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


def _of_kind(kind: RunKind | None) -> Iterable[type[OneRun]]:
    return KINDS.values() if kind is None else (KINDS[kind],)
