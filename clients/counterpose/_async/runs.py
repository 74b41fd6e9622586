"""``client.runs``: runs of every kind by id."""

from __future__ import annotations

import builtins
from functools import partial

from counterpose._async.paging import pages
from counterpose._async.run_handle import AsyncAnyRun, AsyncUnknownRun
from counterpose._async.run_resource import named_run
from counterpose._run_calls import listed
from counterpose._transport_protocol import AsyncSender
from counterpose_core.contract.runs import Run
from counterpose_core.kinds import KINDS, RunKind


class AsyncRuns:
    """Runs of every kind, with awaitable calls."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
        # The client has a resource of each kind, which knows the handle of its runs.
        self._handles: dict[str, type[AsyncAnyRun]] = {
            name: getattr(sender, kind.resource)._handle for name, kind in KINDS.items()
        }

    async def list(self, *, kind: RunKind | None = None) -> builtins.list[AsyncAnyRun]:
        """Return the runs of every kind, or of one, newest first."""
        return [
            self._handle(run)
            async for page in pages(self._sender, partial(listed, kind))
            for run in page.runs
        ]

    async def get(self, run: str, *, kind: RunKind | None = None) -> AsyncAnyRun:
        """Return a run by its id, by the beginning of its id, or by ``@last``.

        Raises:
            NotFound: there is no such run, or it is not of this kind.
            InvalidRequest: several ids begin like this.
        """
        return self._handle(await named_run(self._sender, run, kind))

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
        return self._handles.get(run.kind, AsyncUnknownRun)(self._sender, run)
