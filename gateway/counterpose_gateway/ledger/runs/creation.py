"""New runs and new items: their values made ready before the ledger is locked, then written together."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, column, insert, table

from counterpose_core.contract.runs import Run
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger import webhooks
from counterpose_gateway.ledger.blobs import note_uses, refs_in
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.runs.transitions import end_state, record
from counterpose_gateway.ledger.tables import rows, schema, totals
from counterpose_gateway.ledger.tables.columns import storable
from counterpose_gateway.records.items import PlannedItem

_NEW_RUN = insert(schema.runs).returning(schema.runs)
# Without types: SQLAlchemy would convert each value of each row while the lock is held.
_PLAIN = insert(table("items", *(column(each.name) for each in schema.items.columns)))


@dataclass(frozen=True)
class NewItems:
    """The rows of planned items of a run, and the blobs that these name."""

    run_id: str
    rows: Sequence[dict[str, object]]
    refs: Collection[str]

    def __len__(self) -> int:
        return len(self.rows)


def new_items(run_id: str, items: Sequence[PlannedItem], *, stage: int = 1, first: int = 0) -> NewItems:
    """Return the rows of planned items, as the database's driver takes them; arguments as `rows.new_item`."""
    made = [_plain(rows.new_item(run_id, item, stage=stage, first=first)) for item in items]
    refs = {ref for item in items for ref in (item.source_image, *refs_in(item.instruction))}
    return NewItems(run_id, made, sorted(refs))


def insert_items(connection: Connection, items: NewItems) -> None:
    """Insert the rows; raises SQLAlchemy's IntegrityError if the run has an item of the same key."""
    if items.rows:
        connection.execute(_PLAIN, items.rows)
        note_uses(connection, items.run_id, items.refs)


def _plain(row: dict[str, object]) -> dict[str, object]:
    instruction = row["instruction"]
    texts = {name: storable(value) for name, value in row.items() if isinstance(value, str)}
    return {**row, **texts, "instruction": None if instruction is None else json.dumps(instruction)}


def new_run(session: Session, run_id: str, total: int, staged: bool) -> dict[str, Any]:
    """Return the row of a run of so many items: its state, its counters and its times."""
    now = session.clock()
    zeros = dict.fromkeys(rows.COUNTED, 0)
    without_items = ("finalizing", None) if staged else (end_state(zeros), now)
    state, ended_at = ("queued", None) if total else without_items
    times = {"created_at": now, "started_at": None, "ended_at": ended_at, "served_at": 0.0}
    counters = {"total": total, **zeros, "pending": total}
    return {"id": run_id, "state": state, "staged": staged, **counters, **times}


def write_run(
    session: Session, row: dict[str, Any], planned: NewItems, functions: Mapping[str, str] | None
) -> Run:
    """Write a run with its first items, its event and the totals, all or nothing."""
    with session.writing() as connection:
        continued = {} if row["parent"] is None else rows.run_row(connection, row["parent"])
        row["functions"] = dict(functions or {}) or continued.get("functions")
        # As it is stored: its caller needs no transaction more to read it.
        run = rows.run(connection.execute(_NEW_RUN, row).mappings().one())
        insert_items(connection, planned)
        counts = {name: row[name] for name in ("total", *rows.COUNTED)}
        record(connection, run.id, row["state"], counts, "created")
        if row["ended_at"] is not None:
            webhooks.tell_end(connection, {"name": None, "problem": None, **row})
        going_on = int(row["state"] not in FINAL_RUN_STATES)
        totals.add(connection, run.id, active=going_on, opened=row["pending"])
    return run
