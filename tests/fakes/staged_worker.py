"""A process that works on a run in stages and pauses at a boundary, to be killed there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import event

from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records import pace
from counterpose_gateway.records.items import LeasedStage, PlannedItem
from counterpose_gateway.records.outcomes import Outcome
from fakes.ledger_worker import acknowledge
from fakes.ledgers import done
from fakes.staged_runs import FourStages, planner

Boundary = Literal[
    "finalizing", "within-a-chunk", "before-the-opening", "within-the-opening", "opened", "before-the-end"
]
FOR_EVER = 3600.0
SMALL_CHUNK = 3


class HaltingLedger(Ledger):
    """A ledger whose process halts at one boundary of one stage, after writing so to ``log``.

    ``chunk`` is the chunk in the middle of whose transaction it does.
    """

    def __init__(self, url: str, boundary: Boundary | None, stage: int, log: Path, chunk: int = 0) -> None:
        super().__init__(url)
        self._boundary = boundary
        self._halting_stage = stage
        self._log = log
        self._chunk = chunk
        self._armed = False
        event.listen(self._session.database.engine, "commit", self._before_commit)
        self.items.finish = partial(self._finish, self.items.finish)  # type: ignore[method-assign]
        stages = self.stages
        stages.store = partial(self._store, stages.store)  # type: ignore[method-assign]
        stages.open = partial(self._open, stages.open)  # type: ignore[method-assign]
        stages.end = partial(self._end, stages.end)  # type: ignore[method-assign]

    def _finish(
        self, finish: Callable[[str, int, Outcome], None], item_id: str, fence: int, outcome: Outcome
    ) -> None:
        """Record the outcome; halt after the stage's last one."""
        finish(item_id, fence, outcome)
        run = self.runs.get(item_id.rpartition(".")[0])
        if run.state == "finalizing":
            self._halt_at("finalizing", run.stage + 1)

    def _store(
        self,
        store: Callable[[LeasedStage, Sequence[PlannedItem]], float],
        leased: LeasedStage,
        items: Sequence[PlannedItem],
    ) -> float:
        """Store the chunk; halt before it is committed."""
        if self._is_at("within-a-chunk", leased.stage):
            self._armed = self._chunk == 0
            self._chunk -= 1
        return store(leased, items)

    def _open(self, opened: Callable[[LeasedStage, int], None], leased: LeasedStage, n_items: int) -> None:
        """Open the stage; halt before, within or after the transaction."""
        self._halt_at("before-the-opening", leased.stage)
        self._armed = self._is_at("within-the-opening", leased.stage)
        opened(leased, n_items)
        self._halt_at("opened", leased.stage)

    def _end(self, end: Callable[[LeasedStage], None], leased: LeasedStage) -> None:
        """End the run; halt before it."""
        self._halt_at("before-the-end", leased.stage)
        end(leased)

    def _is_at(self, boundary: Boundary, stage: int) -> bool:
        return (boundary, stage) == (self._boundary, self._halting_stage)

    def _halt_at(self, boundary: Boundary, stage: int) -> None:
        if self._is_at(boundary, stage):
            self._halt()

    def _before_commit(self, _: Any) -> None:
        if self._armed:
            self._halt()

    def _halt(self) -> None:
        acknowledge(self._log, f"{self._boundary} {self._halting_stage}")
        time.sleep(FOR_EVER)


def work_in_stages(
    url: str, run_id: str, many: int, log: Path, lease_seconds: float, halt: tuple[Boundary, int, int] | None
) -> None:
    """Work until the run has ended or ``halt`` is reached: a boundary, its stage, its chunk."""
    if many < pace.CHUNK:
        # Small, so that a small stage also has several chunks.
        pace.CHUNK = SMALL_CHUNK
    boundary, stage, chunk = halt or (None, 0, 0)
    ledger = HaltingLedger(url, boundary, stage, log, chunk)
    asyncio.run(_work(ledger, run_id, FourStages(many), lease_seconds))


async def _work(ledger: Ledger, run_id: str, method: FourStages, lease_seconds: float) -> None:
    planning = planner(ledger, method, lease_seconds=lease_seconds)
    while ledger.runs.get(run_id).state not in FINAL_RUN_STATES:
        if (leased := await planning.lease()) is not None:
            await planning.plan(leased)
            continue
        group = ledger.items.lease("worker", seconds=lease_seconds)
        for item in group.items if group else ():
            ledger.items.finish(item.id, item.fence, done())
        if group is None:
            await asyncio.sleep(0.02)
