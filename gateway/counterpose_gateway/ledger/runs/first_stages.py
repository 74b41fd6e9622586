"""The first stage of a large run: its items are stored in chunks while the run is ``validating``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, RowMapping, select
from sqlalchemy.exc import IntegrityError

from counterpose_core.errors import InternalError, LeaseLost
from counterpose_gateway.ledger.database.engine import LedgerPart
from counterpose_gateway.ledger.runs.new_items import NewItems, insert_items, new_items
from counterpose_gateway.ledger.runs.transitions import change
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.items import LeasedStage, PlannedItem

_runs = schema.runs.c
# Not the whole row: a configuration may have a megabyte, and it would be read once a chunk.
_NEEDED = (
    _runs.id, _runs.state, _runs.stage, _runs.planning_fence, _runs.total,
    *(_runs[name] for name in rows.COUNTED),
)  # fmt: skip


class FirstStages(LedgerPart):
    """The part of the ledger that stores what a run's creation did not."""

    def store_first_stage(
        self, leased: LeasedStage, items: Sequence[PlannedItem], *, last: bool
    ) -> tuple[LeasedStage, float]:
        """Add some items to a run that is being planned; with the ``last`` ones it waits for a worker.

        Returns:
            the lease for the items after these, and for how many seconds the ledger was locked.

        Raises:
            LeaseLost: another process plans the run now, has stored these items, or the run has ended.
            InternalError: the run has an item of the same key.
        """
        # Made before the transaction: the lock is held for the writing alone.
        planned = new_items(leased.run_id, items)
        with self._database.writing() as connection:
            start = time.perf_counter()
            run = _held(connection, leased)
            _insert(connection, leased, planned)
            added = len(planned)
            values: dict[str, Any] = {
                "total": run["total"] + added, "pending": run["pending"] + added,
                # A planner that gets on may be killed as often as it likes.
                "planning_attempts": 0,
            }  # fmt: skip
            if last:
                values |= {"state": "queued", "plan_sources": None, "planning_due_at": 0.0}
            change(connection, run, values, f"{'all ' if last else ''}{values['total']} items are planned")
        locked = time.perf_counter() - start
        if last:
            # To a server that has not seen them yet, a table with a million new open items is an empty one:
            # it reads them all to lease a group.
            self._database.sample("items")
        return replace(leased, first=leased.first + added), locked


def _insert(connection: Connection, leased: LeasedStage, planned: NewItems) -> None:
    try:
        insert_items(connection, planned)
    except IntegrityError as error:
        first = planned.rows[0]["ordinal"]
        raise InternalError(
            f"the plan of run {leased.run_id!r} repeats an item key among the {len(planned)} from {first}"
        ) from error


def _held(connection: Connection, leased: LeasedStage) -> RowMapping:
    query = select(*_NEEDED).where(_runs.id == leased.run_id).with_for_update()
    run = rows.first(connection, query)
    if run is None:
        raise rows.absent(connection, leased.run_id)
    found = (run["state"], run["planning_fence"], run["total"])
    # The total, too: two planners with one fence would be those of two requests with one idempotency key.
    if found != ("validating", leased.fence, leased.first):
        raise LeaseLost(f"the lease to plan run {leased.run_id!r} is no longer valid")
    return run
