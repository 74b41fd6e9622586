"""New items: their values made ready before the ledger is locked, and one statement that inserts them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import Connection, column, insert, table

from faultline_gateway.ledger import rows, schema
from faultline_gateway.runs.items import PlannedItem

# Without types: SQLAlchemy would convert each value of each row while the lock is held.
_PLAIN = insert(table("items", *(column(each.name) for each in schema.items.columns)))

NewItems = Sequence[dict[str, object]]


def new_items(run_id: str, items: Sequence[PlannedItem], *, stage: int = 1, first: int = 0) -> NewItems:
    """Return the rows of planned items, as the database's driver takes them; arguments as `rows.new_item`."""
    return [_plain(rows.new_item(run_id, item, stage=stage, first=first)) for item in items]


def insert_items(connection: Connection, items: NewItems) -> None:
    """Insert the rows; raises SQLAlchemy's IntegrityError if the run has an item of the same key."""
    if items:
        connection.execute(_PLAIN, items)


def _plain(row: dict[str, object]) -> dict[str, object]:
    instruction = row["instruction"]
    texts = {name: schema.storable(value) for name, value in row.items() if isinstance(value, str)}
    return {**row, **texts, "instruction": None if instruction is None else json.dumps(instruction)}
