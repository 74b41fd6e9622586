"""Where work is: the run to serve next, and its first item, each found by an index whatever the ledger holds.

A run with open items is *to serve* or *idle*. It becomes idle when a look finds none of its items ready: all
are leased, or paused after a failure. `idle_until` then says when the first of them may be ready, so the run
is not looked at again before. A run is to serve too often rather than too seldom: a lease that is renewed
leaves `idle_until` as it is, and the next look sets it anew.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, literal_column, select, update

from faultline_gateway.ledger import rows, schema

AWAKENED_AT_ONCE = 100
"""Idle runs that become runs to serve in one transaction, which locks their rows."""

_runs = schema.runs.c
_items = schema.items.c
# Literals, not parameters: SQLite uses a partial index only if it sees the index's own condition.
_QUEUED_OR_GOING = _runs.state.in_((literal_column("'queued'"), literal_column("'in_progress'")))
_TO_SERVE = and_(_QUEUED_OR_GOING, _runs.idle_until.is_(None))
OPEN: ColumnElement[bool] = _items.state.in_((literal_column("'pending'"), literal_column("'leased'")))
"""The condition of the partial indexes on items."""


def may_have_work(connection: Connection, now: float) -> bool:
    """Return whether a look would find a run to serve; this locks nothing."""
    due = select(_runs.id).where(_due(now))
    return any(rows.first(connection, query) is not None for query in (_to_serve(_runs.id), due))


def awaken(connection: Connection, now: float) -> None:
    """Make runs to serve of idle runs whose time has come, but for those whose rows others hold."""
    due = select(_runs.id).where(_due(now)).order_by(_runs.idle_until).limit(AWAKENED_AT_ONCE)
    free = due.with_for_update(skip_locked=True)
    connection.execute(update(schema.runs).where(_runs.id.in_(free)).values(idle_until=None))


def locked_run_to_serve(connection: Connection) -> RowMapping | None:
    """Lock the run that was served longest ago among those whose rows nobody holds; this never waits."""
    return rows.first(connection, _to_serve(*_runs).with_for_update(skip_locked=True))


def run_to_serve(connection: Connection) -> str | None:
    """Return the id of the run that was served longest ago, though another transaction may hold its row."""
    found = rows.first(connection, _to_serve(_runs.id))
    return None if found is None else str(found["id"])


def earliest_item(connection: Connection, run: RowMapping) -> RowMapping | None:
    """Return the open item of a run's opened stages that is ready first, or will be; None if none is open.

    Items that have never been leased come before those that wait for another attempt.
    """
    # Stage by stage, each by one search of the index: items of later stages are stored before they open.
    found: RowMapping | None = None
    for stage in range(1, run["stage"] + 1):
        query = select(_items.id, _items.item_group, _items.attempts, _items.due_at).where(
            _items.run_id == run["id"], _items.stage == stage, OPEN
        )
        item = rows.first(connection, query.order_by(_items.due_at, _items.ordinal))
        if item is not None and (found is None or item["due_at"] < found["due_at"]):
            found = item
    return found


def _to_serve(*columns: ColumnElement[object]) -> Select[*tuple[object, ...]]:
    return select(*columns).where(_TO_SERVE).order_by(_runs.served_at, _runs.created_at, _runs.id)


def _due(now: float) -> ColumnElement[bool]:
    return and_(_runs.idle_until.is_not(None), _runs.idle_until <= now)
