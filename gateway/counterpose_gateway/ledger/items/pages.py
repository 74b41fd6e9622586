"""Pages of a run's items: in planned order, and by one look at an index for those of one state."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, RowMapping, Select, select

from counterpose_core.types import ItemState
from counterpose_gateway.ledger.tables import rows, schema

LOOKED_AT = 10_000
"""Items that one look at some kind, state or class alone reads, in about 20 ms."""

_runs = schema.runs.c
_items = schema.items.c


def every(run_id: str, since: int) -> Select[*tuple[Any, ...]]:
    """Return the query for items after an ordinal in their order."""
    # A keyset, never an offset: changes of earlier items cannot shift later pages.
    query = select(schema.items).where(_items.run_id == run_id, _items.ordinal > since)
    return query.order_by(_items.ordinal)


def ended(run_id: str, since: int) -> Select[*tuple[Any, ...]]:
    """Return the query for ended items of one state, which an index has in their order."""
    return every(run_id, since).where(rows.ENDED)


def opened(run_id: str, since: int, stage: int, state: ItemState) -> Select[*tuple[Any, ...]]:
    """Return the query for the open items, if they are few, or for those of them that were ever leased."""
    # Added to: SQLite would rather walk over all items of the run in their order.
    place = _items.ordinal + 0
    query = select(schema.items).where(_items.run_id == run_id, rows.OPEN, place > since).order_by(place)
    if state == "leased":
        # Items that were never leased have the time 0: a million of them are passed over.
        query = query.where(_items.due_at > 0.0)
    return query.where(_items.stage.in_(range(1, stage + 1)))


def place_after(connection: Connection, run_id: str, state: ItemState | None, since: int) -> int | None:
    """Return the ordinal of the item of a state that is `LOOKED_AT` such items after another."""
    mine = (_items.run_id == run_id) & rows.ENDED & (_items.state == state) & (_items.ordinal > since)
    place = select(_items.ordinal).where(mine).order_by(_items.ordinal).offset(LOOKED_AT - 1).limit(1)
    found: int | None = connection.execute(place).scalar()
    return found


def extent(connection: Connection, run_id: str) -> RowMapping:
    """Return a run's stage and counts: a page must not read its configuration, which may have a megabyte."""
    mine = rows.is_own(connection, _runs.tenant)
    query = select(_runs.stage, _runs.total, _runs.pending, _runs.failed).where(
        _runs.id == run_id, rows.KEPT, mine
    )
    row = rows.first(connection, query)
    if row is None:
        raise rows.absent(connection, run_id)
    return row
