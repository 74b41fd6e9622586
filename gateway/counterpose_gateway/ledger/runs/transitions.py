"""State changes of a run: counters, its end, and the event of each change.

New runs and new items: their values made ready before the ledger is locked, then written together.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, column, insert, select, table, update

from counterpose_core.contract.base import Problem
from counterpose_core.contract.runs import Run
from counterpose_core.errors import error_for
from counterpose_core.types import FINAL_RUN_STATES, Cost, RunState
from counterpose_gateway.ledger import webhooks
from counterpose_gateway.ledger.access import add_usage
from counterpose_gateway.ledger.blobs import note_uses, refs_in
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.runs import turns
from counterpose_gateway.ledger.runs.limits import write_limits
from counterpose_gateway.ledger.tables import rows, schema, totals
from counterpose_gateway.ledger.tables.columns import storable
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.records.measurements import Attempt
from counterpose_gateway.records.spending import Allotment

_NEW_EVENT = insert(schema.events)


@dataclass(frozen=True, kw_only=True)
class Step:
    """A change of a run's counters, with the message of its event; ``cost`` is added to the run's so far.

    ``attempts``: the attempts at items that ended with it.
    """

    changes: Mapping[str, int]
    message: str
    cost: Cost | None = None
    attempts: Sequence[Attempt] = ()


def move(
    connection: Connection, run: RowMapping, changes: Mapping[str, int], *, now: float, message: str
) -> None:
    """Apply ``changes`` to a locked run's counters and record the event, as `move_by`."""
    move_by(connection, run, [Step(changes=changes, message=message)], now=now)


def move_by(connection: Connection, run: RowMapping, steps: Sequence[Step], *, now: float) -> None:
    """Apply the steps to a locked run's counters in turn and record an event for each.

    If nothing is pending then, a run planned in stages becomes ``finalizing`` and any other run ends.
    """
    counters = {name: run[name] for name in rows.COUNTED}
    events = []
    for step in steps:
        counters = {name: number + step.changes.get(name, 0) for name, number in counters.items()}
        counts = {"total": run["total"], **counters}
        events.append({"run_id": run["id"], "state": run["state"], "counts": counts, "message": step.message})
    # In the last item's own transaction: no reader sees an ended run with open items, or the reverse.
    ending = {} if counters["pending"] else _without_items(connection, run, counters, now)
    # Earlier steps leave items open, so the run goes on in their events.
    events[-1]["state"] = ending.get("state", run["state"])
    values = {**counters, **ending}
    costs = [step.cost for step in steps if step.cost is not None]
    spent = sum(costs, Cost()) if costs else None
    if spent is not None:
        values["cost"] = (Cost.model_validate(run["cost"] or {}) + spent).model_dump()
    connection.execute(update(schema.runs).where(schema.runs.c.id == run["id"]).values(values))
    connection.execute(_NEW_EVENT, events)
    gone_on = totals.change_of_state(run["state"], events[-1]["state"])
    if gone_on < 0:
        webhooks.tell_end(connection, {**run, **values})
    totals.add(
        connection, run["id"], active=gone_on,
        opened=counters["pending"] - run["pending"], cost=spent,
        attempts=[each for step in steps for each in step.attempts],
    )  # fmt: skip
    images = sum(step.changes.get(state, 0) for step in steps for state in ("done", "filtered"))
    seconds = 0.0 if spent is None else spent.seconds
    add_usage(connection, run["tenant"], run["id"], now, images=images, gpu_seconds=seconds)


def end(
    connection: Connection,
    run: RowMapping,
    *,
    now: float,
    message: str,
    state: RunState | None = None,
    problem: Problem | None = None,
    cancelled: int = 0,
) -> None:
    """End a locked run as its counters say, or in the ``state`` given; its planner, if any, loses the lease.

    Args:
        now: seconds since the epoch.
        message: the message of the event.
        state: the final state; None takes the one that follows from the counters.
        problem: why the run failed; None takes the first failed item's, if any.
        cancelled: how many pending items were cancelled with it.
    """
    counters = {name: run[name] for name in rows.COUNTED}
    counters |= {"pending": run["pending"] - cancelled, "cancelled": run["cancelled"] + cancelled}
    values = {**counters, **_ending(connection, run, counters, now)}
    if state is not None:
        document = None if problem is None else problem.model_dump(mode="json")
        values |= {"state": state, "problem": document}
    change(connection, run, {**values, "planning_fence": run["planning_fence"] + 1}, message)


def change(connection: Connection, run: RowMapping, values: Mapping[str, Any], message: str) -> None:
    """Write ``values`` into a locked run's row and record an event with its new state."""
    connection.execute(update(schema.runs).where(schema.runs.c.id == run["id"]).values(dict(values)))
    changed = {**run, **values}
    gone_on = totals.change_of_state(run["state"], changed["state"])
    counts = {name: changed[name] for name in ("total", *rows.COUNTED)}
    record(connection, run["id"], changed["state"], counts, message)
    if gone_on < 0:
        webhooks.tell_end(connection, changed)
    totals.add(connection, run["id"], active=gone_on, opened=changed["pending"] - run["pending"])


def record(connection: Connection, run_id: str, state: str, counts: Mapping[str, int], message: str) -> None:
    """Add an event; the run's row is locked, so event numbers of a run grow in the order of commits."""
    values = {"run_id": run_id, "state": state, "counts": dict(counts), "message": message}
    connection.execute(_NEW_EVENT, values)


def _without_items(
    connection: Connection, run: RowMapping, counters: Mapping[str, int], now: float
) -> dict[str, Any]:
    if run["staged"]:
        return {"state": "finalizing", "idle_until": None}
    return _ending(connection, run, counters, now)


def _ending(
    connection: Connection, run: RowMapping, counters: Mapping[str, int], now: float
) -> dict[str, Any]:
    state = end_state(counters)
    problem = _first_problem(connection, run["id"]) if state == "failed" else None
    # A clock that was set back must not let a run end before it began.
    ended_at = max(now, run["started_at"] or run["created_at"])
    return {"state": state, "ended_at": ended_at, "problem": problem, "idle_until": None}


def end_state(counters: Mapping[str, int]) -> RunState:
    """Return the state of a run with nothing left to do."""
    if counters["cancelled"]:
        return "cancelled"
    if not counters["failed"]:
        return "completed"
    return "completed_with_failures" if counters["done"] + counters["filtered"] else "failed"


def _first_problem(connection: Connection, run_id: str) -> dict[str, Any]:
    failed = (schema.items.c.run_id == run_id) & (schema.items.c.state == "failed")
    query = select(schema.items.c.code, schema.items.c.detail).where(failed).order_by(schema.items.c.ordinal)
    row = connection.execute(query.limit(1)).one()
    return Problem.of(error_for(row.code, f"every item failed, the first one: {row.detail}")).model_dump(
        mode="json"
    )


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
    documents = {
        name: None if row[name] is None else json.dumps(row[name]) for name in ("instruction", "labels")
    }
    texts = {name: storable(value) for name, value in row.items() if isinstance(value, str)}
    return {**row, **texts, **documents}


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
    session: Session,
    row: dict[str, Any],
    planned: NewItems,
    functions: Mapping[str, str] | None,
    spending: Allotment | None = None,
) -> Run:
    """Write a run with its first items, its event and the totals, all or nothing."""
    with session.writing() as connection:
        continued = {} if row["parent"] is None else rows.run_row(connection, row["parent"])
        row["functions"] = dict(functions or {}) or continued.get("functions")
        row["served_at"] = turns.place(connection, row["id"], row["tenant"])
        # As it is stored: its caller needs no transaction more to read it.
        run = rows.run(connection.execute(_NEW_RUN, row).mappings().one())
        insert_items(connection, planned)
        if spending is not None:
            write_limits(connection, run.id, spending)
        counts = {name: row[name] for name in ("total", *rows.COUNTED)}
        record(connection, run.id, row["state"], counts, "created")
        if row["ended_at"] is not None:
            webhooks.tell_end(connection, {"name": None, "problem": None, **row})
        going_on = int(row["state"] not in FINAL_RUN_STATES)
        totals.add(connection, run.id, active=going_on, opened=row["pending"])
    return run
