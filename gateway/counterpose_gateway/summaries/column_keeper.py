"""Columns of large runs, kept while the runs go on, by the processes that make summaries."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterpose_core.contract.runs import Run
from counterpose_core.errors import NotFound
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.records.items import LargeRun
from counterpose_gateway.runs.context import RecordedRuns
from counterpose_gateway.runs.method import AnyMethod
from counterpose_gateway.summaries.columns import ColumnFolder
from counterpose_gateway.summaries.columns.parts import PART
from counterpose_gateway.summaries.joined import JoinedWork

if TYPE_CHECKING:
    from counterpose_gateway.ledger.runs.runs import Runs

LOOK_SECONDS = 5.0
SWEEP_SECONDS = 600.0

KEPT_AT_ONCE = 4
"""Parts that a task makes, in some two seconds: a summary that is asked for meanwhile waits as long.

As many are waited for while a run goes on, since an idle process ends and costs a second to start again.
"""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeepColumns:
    """The task of keeping some columns of a run; returns how many parts were made."""

    keep: Callable[[Run, RecordedRuns], int]
    run_id: str

    def __call__(self, runs: RecordedRuns) -> int:
        """Make and keep them."""
        return self.keep(runs.ledger.runs.get(self.run_id), runs)


class ColumnKeeper:
    """Looks for runs of which there is more to keep, and has it kept.

    keeping = asyncio.create_task(ColumnKeeper(ledger.runs, methods, joined, folder).keep())
    """

    def __init__(
        self, runs: Runs, methods: Mapping[str, AnyMethod], joined: JoinedWork, folder: ColumnFolder
    ) -> None:
        self._runs = runs
        self._methods = methods
        self._joined = joined
        self._folder = folder
        self._seen: dict[str, int] = {}
        self._swept_at = float("-inf")

    async def keep(self) -> None:
        """Go on until cancelled."""
        while True:
            try:
                await self.look()
            except Exception:  # whatever it is: the ledger has all that is not kept
                _logger.exception("columns cannot be kept now; trying again")
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Look once: have some parts kept of each run that has enough of them, and sweep now and then."""
        if time.monotonic() - self._swept_at > SWEEP_SECONDS:
            await asyncio.to_thread(self._folder.sweep, self._runs.existing)
            self._swept_at = time.monotonic()
        known = list(self._seen)
        found = await asyncio.to_thread(self._runs.large, least_items=PART, known=known)
        for gone in self._seen.keys() - {run.id for run in found}:
            del self._seen[gone]
        for run in found:
            method = self._methods.get(run.kind)
            if method is not None and method.keep_columns is not None:
                await self._keep(run, method.keep_columns)

    async def _keep(self, run: LargeRun, keep: Callable[[Run, RecordedRuns], int]) -> None:
        seen = self._seen.setdefault(run.id, 0)
        has_ended = run.state in FINAL_RUN_STATES
        if not has_ended and run.ended - seen < KEPT_AT_ONCE * PART:
            return
        task = KeepColumns(keep, run.id)
        try:
            with self._joined.asked(("columns", run.id), task, keep=False) as future:
                kept = await asyncio.wrap_future(future)
        except NotFound:
            # It was deleted just now.
            return
        if kept == KEPT_AT_ONCE:
            # There may be more: the next look asks again.
            return
        self._seen[run.id] = run.ended
        if has_ended:
            del self._seen[run.id]
