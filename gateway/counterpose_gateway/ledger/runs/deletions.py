"""Delete runs that have ended; what is left of one is its id, its kind and what it cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Column, String, Table, cast, delete, insert, select, update

from counterpose_core.errors import RunNotDeletable
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger.blobs import digests_in, loosen
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.pace import in_chunks, never

DELETED_AT_ONCE = 1_000
"""Rows deleted in one transaction at most, which locks the ledger for about 10 ms."""

_runs = schema.runs.c

_PLACES: Sequence[tuple[Column[Any], int | str]] = (
    (schema.items.c.ordinal, -1), (schema.events.c.id, -1), (schema.shift_decisions.c.id, -1),
    (schema.deliveries.c.id, -1), (schema.blob_uses.c.ref, ""),
)  # fmt: skip
"""The column by which each table's rows of a run are indexed, and a place before the first."""


def delete_run(session: Session, run_id: str) -> None:
    """Delete a run as `Runs.delete` says."""
    with session.writing() as connection:
        run = rows.locked_run(connection, run_id)
        if run["state"] not in FINAL_RUN_STATES:
            raise RunNotDeletable(f"run {run_id!r} is {run['state']}; cancel it, then delete it")
        parent = run["parent"]
        if parent and rows.first(connection, select(_runs.id).where(_runs.id == parent, rows.KEPT)):
            # Evidence that multiplies over attempts is only valid if no attempt can be left out.
            raise RunNotDeletable(
                f"run {run_id!r} is part of the evidence of run {parent!r}; delete that one first"
            )
        # Its key is free: who deletes a run may send its request again.
        hidden = {"state": "deleting", "idempotency_key": None}
        connection.execute(update(schema.runs).where(_runs.id == run_id).values(hidden))
        # The cost goes on counting: a counter of money that falls would alarm whoever watches it.
        gone = {"id": run_id, "kind": run["kind"], "deleted_at": session.clock()}
        gone |= {"cost": run["cost"], "tenant": run["tenant"]}
        connection.execute(insert(schema.deleted_runs).values(gone))
    delete_rest(session, run_id)


def delete_rest(session: Session, run_id: str, stopped: Callable[[], bool] = never) -> None:
    """Delete the rows of a run that is being deleted in chunks, the run's own last."""
    for place, before in _PLACES:
        _delete_rows(session, run_id, place, before, stopped)
    if stopped():
        return
    with session.erasing() as connection:
        config = select(cast(_runs.config, String)).where(_runs.id == run_id, _runs.state == "deleting")
        loosen(connection, session.clock(), digests_in(connection.execute(config).scalars()))
        connection.execute(delete(schema.runs).where(_runs.id == run_id, _runs.state == "deleting"))


def _delete_rows(
    session: Session, run_id: str, place: Column[Any], after: int | str, stopped: Callable[[], bool]
) -> None:
    table = place.table
    assert isinstance(table, Table)  # a column of the schema
    # On PostgreSQL a search from the start would walk over the index's entries of all rows deleted before.

    def delete_chunk(size: int) -> tuple[int, float]:
        nonlocal after
        with session.erasing() as connection:
            start = time.perf_counter()
            if not rows.lock_deleted(connection, run_id):
                return 0, 0.0
            mine = (table.c.run_id == run_id) & (place > after)
            some = select(place).where(mine).order_by(place).limit(size)
            found = connection.execute(some).scalars().all()
            if found:
                if table is schema.blob_uses:
                    loosen(connection, session.clock(), found)
                after = found[-1]
                connection.execute(delete(table).where(mine, place <= after))
            return len(found), time.perf_counter() - start

    in_chunks(delete_chunk, DELETED_AT_ONCE, stopped=stopped)
