"""Where work is: the run to serve next, and its first item, each found by an index whatever the ledger holds.

A run with open items is *to serve* or *idle*. It becomes idle when a look finds none of its items ready: all
are leased, or paused after a failure. `idle_until` then says when the first of them may be ready, so the run
is not looked at again before. A run is to serve too often rather than too seldom: a lease that is renewed
leaves `idle_until` as it is, and the next look sets it anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, bindparam, literal_column, select, update

from counterpose_core.kinds import KINDS, ItemKind
from counterpose_gateway.ledger.tables import rows, schema

AWAKENED_AT_ONCE = 100
"""Idle runs that become runs to serve in one transaction, which locks their rows."""

_runs = schema.runs.c
_items = schema.items.c


def _texts(names: Iterable[str]) -> list[ColumnElement[str]]:
    # Not parameters: SQLite uses a partial index only if it sees the index's own condition.
    return [literal_column(f"'{name}'") for name in names]


_QUEUED_OR_GOING = _runs.state.in_(_texts(rows.OPEN_STATES))
_TO_SERVE = and_(_QUEUED_OR_GOING, _runs.idle_until.is_(None), _runs.kind.in_(_texts(KINDS)))

KNOWN_ITEM = _items.kind.in_(_texts(get_args(ItemKind)))
"""Items, like runs, of a kind that only another version knows wait for a worker of that version."""

# Made once: building a statement costs more than SQLite needs to execute it.
_DUE = and_(_runs.idle_until.is_not(None), _runs.idle_until <= bindparam("now"))
_DUE_RUN = select(_runs.id).where(_DUE).limit(1)
_DUE_RUNS = select(_runs.id).where(_DUE).order_by(_runs.idle_until).limit(AWAKENED_AT_ONCE)
_AWAKEN = (
    update(schema.runs)
    .where(_runs.id.in_(_DUE_RUNS.with_for_update(skip_locked=True)))
    .values(idle_until=None)
)  # fmt: skip
_STATE_OF_RUN = select(_runs.state, _runs.idle_until, _runs.kind).where(_runs.id == bindparam("run"))
_IN_TURN = (_runs.served_at, _runs.created_at, _runs.id)
_FIRST_FREE = (
    select(schema.runs).where(_TO_SERVE).order_by(*_IN_TURN).limit(1).with_for_update(skip_locked=True)
)
_FIRST = select(_runs.id).where(_TO_SERVE).order_by(*_IN_TURN).limit(1)
_EARLIEST = (
    select(_items.id, _items.item_group, _items.attempts, _items.due_at, _items.state)
    .where(_items.run_id == bindparam("run"), _items.stage == bindparam("of_stage"), rows.OPEN, KNOWN_ITEM)
    .order_by(_items.due_at, _items.ordinal)
    .limit(1)
)


def may_have_work(connection: Connection, now: float) -> bool:
    """Return whether a look would find a run to serve; this locks nothing."""
    if connection.execute(_FIRST).first() is not None:
        return True
    return connection.execute(_DUE_RUN, {"now": now}).first() is not None


def run_may_have_work(connection: Connection, run_id: str, now: float) -> bool:
    """Return whether an item of this run may be ready, or the run is not there; this locks nothing."""
    row = connection.execute(_STATE_OF_RUN, {"run": run_id}).first()
    if row is None:
        return True
    state, idle_until, kind = row
    is_due = idle_until is None or idle_until <= now
    return state in rows.OPEN_STATES and kind in KINDS and is_due


def awaken(connection: Connection, now: float) -> None:
    """Make runs to serve of idle runs whose time has come, but for those whose rows others hold."""
    connection.execute(_AWAKEN, {"now": now})


def locked_run_to_serve(connection: Connection) -> RowMapping | None:
    """Lock the run that was served longest ago among those whose rows nobody holds; this never waits."""
    return connection.execute(_FIRST_FREE).mappings().first()


def run_to_serve(connection: Connection) -> str | None:
    """Return the id of the run that was served longest ago, though another transaction may hold its row."""
    found: str | None = connection.execute(_FIRST).scalar()
    return found


def earliest_item(connection: Connection, run: RowMapping) -> RowMapping | None:
    """Return the open item of a run's opened stages that is ready first, or will be; None if none is open.

    Items that have never been leased come before those that wait for another attempt.
    """
    # Stage by stage, each by one search of the index: items of later stages are stored before they open.
    found: RowMapping | None = None
    for stage in range(1, run["stage"] + 1):
        item = connection.execute(_EARLIEST, {"run": run["id"], "of_stage": stage}).mappings().first()
        if item is not None and (found is None or item["due_at"] < found["due_at"]):
            found = item
    return found
