"""``client.runs``: runs of every kind by id."""

from __future__ import annotations

import builtins
from collections.abc import Iterable

from counterpose._async.paging import pages
from counterpose._async.run_handle import AsyncAnyRun
from counterpose._run_ids import LAST, absent_run, is_beginning, last_run, only_run
from counterpose._transport_protocol import AsyncSender
from counterpose_core.contract.runs import Run
from counterpose_core.errors import NotFound
from counterpose_core.kinds import KINDS, RunKind


class AsyncRuns:
    """Runs of every kind, with awaitable calls."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
        # The client has a resource of each kind, which knows the handle of its runs.
        self._handles: dict[RunKind, type[AsyncAnyRun]] = {
            name: getattr(sender, kind.resource)._handle for name, kind in KINDS.items()
        }

    async def list(self, *, kind: RunKind | None = None) -> builtins.list[AsyncAnyRun]:
        """Return the runs of every kind, or of one, newest first."""
        found = [
            handle(self._sender, run)
            for handle in self._of_kind(kind)
            async for page in pages(self._sender, handle._calls.list)
            for run in page.runs
        ]
        return sorted(found, key=lambda each: each.run.created_at, reverse=True)

    async def get(self, run: str, *, kind: RunKind | None = None) -> AsyncAnyRun:
        """Return a run by its id, by the beginning of its id, or by ``@last``.

        Raises:
            NotFound: there is no such run.
            InvalidRequest: several ids begin like this.
        """
        if run == LAST:
            newest = list[Run]()
            for handle in self._of_kind(kind):
                first = await self._sender.send(handle._calls.list(None, limit=1))
                newest += first.runs
            return self._handle(last_run(newest, kind))
        if is_beginning(run):
            listed = await self.list(kind=kind)
            return self._handle(only_run(run, [each.run for each in listed]))
        for handle in self._of_kind(kind):
            try:
                return handle(self._sender, await self._sender.send(handle._calls.get(run)))
            except NotFound:
                continue
        raise absent_run(run)

    async def delete(self, run: str) -> None:
        """Delete an ended run, named as for `get`; images that nothing else has go within hours.

        Raises:
            NotFound: there is no such run.
            InvalidRequest: several ids begin like this.
            RunNotDeletable: it has not ended, or it is part of the evidence of a run that exists.
        """
        found = await self.get(run)
        await found.delete()

    def _handle(self, run: Run) -> AsyncAnyRun:
        return self._handles[run.kind](self._sender, run)

    def _of_kind(self, kind: RunKind | None) -> Iterable[type[AsyncAnyRun]]:
        return self._handles.values() if kind is None else (self._handles[kind],)
