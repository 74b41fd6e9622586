"""Large ledgers in seconds: a few rows that the product wrote, copied by the database itself.

Equal to what the product writes at 1,000 items (``test_bulk_ledgers.py``): new columns of the schema are
copied with the others.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, create_engine, insert, select, text

from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.tables import schema, totals
from fakes.ledgers import create_run

COPIED_AT_ONCE = 1_000
"""Rows of runs in one statement."""

_OWN = ("id", "item_key", "ordinal", "item_group")


def load_run(ledger: Ledger, url: str, *, sources: int, per_source: int) -> str:
    """Make a queued run of ``sources`` groups of ``per_source`` open items and return its id.

    The product creates the first group; the others are copied from it, as they differ in four columns alone.
    ``url`` is the address of the ledger's database.
    """
    run_id = create_run(ledger, sources=1, per_source=per_source)
    total = sources * per_source
    with writing(url) as connection:
        copy_items(connection, run_id, per_source, total)
        _set_total(connection, run_id, total)
        totals.add(connection, run_id, opened=total - per_source)
    return run_id


def copy_items(connection: Connection, run_id: str, per_source: int, total: int) -> None:
    """Fill a run up to ``total`` items, each a copy of the one at its place in the first group."""
    copied = [column.name for column in schema.items.columns if column.name not in _OWN]
    names = ", ".join((*_OWN, *copied))
    connection.execute(
        text(
            "WITH RECURSIVE numbers(n) AS (SELECT CAST(:first AS INTEGER) "
            "UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :total) "
            f"INSERT INTO items ({names}) "
            "SELECT run_id || '.' || n, 'key-' || n, n, 'source-' || (n / :per_source), "
            f"{', '.join(copied)} FROM numbers "
            "JOIN items ON run_id = :run AND ordinal = n % :per_source"
        ),
        {"first": per_source, "total": total, "per_source": per_source, "run": run_id},
    )
    if connection.dialect.name == "postgresql":
        # What autovacuum does soon after: until then the planner takes the table for an empty one.
        connection.execute(text("ANALYZE items"))


def load_runs(ledger: Ledger, url: str, count: int, *, items: int = 3) -> list[str]:
    """Make ``count`` queued runs of one group of ``items`` each and return their ids, the oldest first.

    Without items they have ended.
    """
    model = create_run(ledger, sources=1, per_source=items)
    ids = [model, *(secrets.token_hex(16) for _ in range(count - 1))]
    with writing(url) as connection:
        for table in (schema.runs, schema.items, schema.events):
            query = select(table).where((table.c.id if table is schema.runs else table.c.run_id) == model)
            rows = [dict(row) for row in connection.execute(query).mappings()]
            copies = [
                _copy(table.name, row, run_id, number) for number, run_id in enumerate(ids) for row in rows
            ]
            copies = copies[len(rows) :]
            for start in range(0, len(copies), COPIED_AT_ONCE):
                connection.execute(insert(table), copies[start : start + COPIED_AT_ONCE])
        for run_id in ids[1:]:
            totals.add(connection, run_id, active=int(items > 0), opened=items)
        if connection.dialect.name == "postgresql":
            connection.execute(text("ANALYZE"))
    return ids


def _copy(table: str, row: Mapping[str, Any], run_id: str, number: int) -> dict[str, Any]:
    if table == "runs":
        # A millisecond later each, as if they had come one after the other.
        return {**row, "id": run_id, "created_at": row["created_at"] + number / 1000}
    if table == "items":
        return {**row, "id": f"{run_id}.{row['ordinal']}", "run_id": run_id}
    return {**{name: value for name, value in row.items() if name != "id"}, "run_id": run_id}


def _set_total(connection: Connection, run_id: str, total: int) -> None:
    of_run = schema.runs.c.id == run_id
    connection.execute(schema.runs.update().where(of_run).values(total=total, pending=total))
    counts = connection.execute(
        select(schema.events.c.counts).where(schema.events.c.run_id == run_id)
    ).scalar_one()
    changed = {**counts, "total": total, "pending": total}
    connection.execute(schema.events.update().where(schema.events.c.run_id == run_id).values(counts=changed))


@contextmanager
def writing(url: str) -> Iterator[Connection]:
    """Write in one transaction of any length."""
    # A driver's own settings, without the ledger's bounds on waits: a million rows take longer.
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()
