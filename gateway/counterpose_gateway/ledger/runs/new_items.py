"""New items: their values made ready before the ledger is locked, and one statement that inserts them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, column, insert, table

from counterpose_gateway.ledger.blobs.uses import note_uses, refs_in
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.ledger.tables.columns import storable
from counterpose_gateway.records.items import PlannedItem

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
