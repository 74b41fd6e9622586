"""Which import is worked on next: tenants take turns, and of a tenant what waits longest comes first."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, func, select

from counterpose_gateway.ledger.tables import rows, schema

_imports = schema.imports.c
_shards = schema.import_shards.c

_FIRST_DUE = (
    select(func.min(_shards.due_at))
    .where(_shards.dataset == _imports.dataset, schema.OPEN_SHARDS)
    .scalar_subquery()
)


class Waiting(NamedTuple):
    """An import whose shards are to be found, or one of its shards."""

    dataset: str
    ordinal: int | None = None


class _Import(NamedTuple):
    """An import of which something is due, and since when."""

    listed: bool
    due_at: float
    dataset: str


def waiting_import(
    connection: Connection, now: float, only: str | None = None, last: str | None = None
) -> Waiting | None:
    """Return what of all open imports is due and next in turn, if anything is.

    Args:
        connection: a transaction.
        now: the lease time.
        only: the one dataset to import; None for every one.
        last: the dataset that the caller worked on last; its tenant comes after all others.
    """
    due = _due(connection, now, only)
    if not due:
        return None
    tenants = {rows.dataset_tenant(each.dataset) for each in due}
    served = "" if last is None else rows.dataset_tenant(last)
    turn = min(tenants, key=lambda tenant: (tenant <= served, tenant))
    # A listing comes before all shards: False is less than True.
    first = min(each for each in due if rows.dataset_tenant(each.dataset) == turn)
    if not first.listed:
        return Waiting(first.dataset)
    query = select(_shards.ordinal).where(
        _shards.dataset == first.dataset, schema.OPEN_SHARDS, _shards.due_at <= now
    )
    ordinal = connection.execute(query.order_by(_shards.due_at, _shards.ordinal).limit(1)).scalar()
    return None if ordinal is None else Waiting(first.dataset, ordinal)


def _due(connection: Connection, now: float, only: str | None) -> list[_Import]:
    query = select(_imports.dataset, _imports.state, _imports.due_at, _FIRST_DUE).where(schema.OPEN_IMPORTS)
    if only is not None:
        query = query.where(_imports.dataset == only)
    due = []
    for dataset, state, listing_due, shard_due in connection.execute(query):
        if state == "listing" and listing_due <= now:
            due.append(_Import(False, listing_due, dataset))
        elif shard_due is not None and shard_due <= now:
            due.append(_Import(True, shard_due, dataset))
    return due
