# Generated from clients/counterpose/_async/runs.py by clients/blocking_half.py; do not edit.
"""``client.runs``: runs of every kind by id."""

from __future__ import annotations

import builtins
from functools import partial

from counterpose._run_calls import listed
from counterpose._sync.paging import pages
from counterpose._sync.run_handle import AnyRun, UnknownRun
from counterpose._sync.run_resource import named_run
from counterpose._transport_protocol import Sender
from counterpose_core.contract.runs import Run
from counterpose_core.kinds import KINDS, RunKind


class Runs:
    """Runs of every kind, with blocking calls."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        # The client has a resource of each kind, which knows the handle of its runs.
        self._handles: dict[str, type[AnyRun]] = {
            name: getattr(sender, kind.resource)._handle for name, kind in KINDS.items()
        }

    def list(self, *, kind: RunKind | None = None) -> builtins.list[AnyRun]:
        """Return the runs of every kind, or of one, newest first."""
        return [self._handle(run) for page in pages(self._sender, partial(listed, kind)) for run in page.runs]

    def get(self, run: str, *, kind: RunKind | None = None) -> AnyRun:
        """Return a run by its id, by the beginning of its id, or by ``@last``.

        Raises:
            NotFound: there is no such run, or it is not of this kind.
            InvalidRequest: several ids begin like this.
        """
        return self._handle(named_run(self._sender, run, kind))

    def delete(self, run: str) -> None:
        """Delete an ended run, named as for `get`; images that nothing else has go within hours.

        Raises:
            NotFound: there is no such run.
            InvalidRequest: several ids begin like this.
            RunNotDeletable: it has not ended, or it is part of the evidence of a run that exists.
        """
        found = self.get(run)
        found.delete()

    def _handle(self, run: Run) -> AnyRun:
        return self._handles.get(run.kind, UnknownRun)(self._sender, run)
