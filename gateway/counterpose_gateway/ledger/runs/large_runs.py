"""Runs of many items: which go on, and how many of their items have ended."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import select, union

from counterpose_gateway.ledger.database.engine import LedgerPart
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.items import LargeRun

_runs = schema.runs.c
_NAMED_AT_ONCE = 500


class LargeRuns(LedgerPart):
    """The part of the ledger that keeps columns."""

    def large_runs(self, *, least_items: int, known: Collection[str]) -> Sequence[LargeRun]:
        """Return the runs of at least so many items that go on, and those ``known`` that there still are."""
        columns = select(_runs.id, _runs.kind, _runs.state, _runs.total - _runs.pending)
        # Each by its own partial index: most runs have ended.
        going_on = (schema.RUNS_TO_SERVE, schema.IDLE_RUNS, schema.RUNS_TO_PLAN)
        queries = [columns.where(condition, _runs.total >= least_items) for condition in going_on]
        queries.append(columns.where(_runs.id.in_(list(known)), rows.KEPT))
        with self._database.reading() as connection:
            return [LargeRun._make(row) for row in connection.execute(union(*queries))]

    def existing_runs(self, run_ids: Collection[str]) -> Collection[str]:
        """Return which of these runs there are."""
        wanted, found = list(run_ids), set[str]()
        with self._database.reading() as connection:
            for start in range(0, len(wanted), _NAMED_AT_ONCE):
                named = _runs.id.in_(wanted[start : start + _NAMED_AT_ONCE])
                found.update(connection.execute(select(_runs.id).where(named, rows.KEPT)).scalars())
        return found
