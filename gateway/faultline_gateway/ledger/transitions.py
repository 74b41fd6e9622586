"""State changes of a run: counters, its end, and the event of each change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, RowMapping, insert, select, update

from faultline_core.contract.base import Problem
from faultline_core.errors import error_for
from faultline_core.types import Cost, RunState
from faultline_gateway.ledger import rows, schema, tallies

OPEN_STATES: tuple[RunState, ...] = ("queued", "in_progress")
"""The states of runs whose open items are worked on."""


def move(
    connection: Connection,
    run: RowMapping,
    changes: Mapping[str, int],
    *,
    now: float,
    message: str,
    cost: Cost | None = None,
) -> None:
    """Apply ``changes`` to a locked run's counters and record the event.

    If nothing is pending, a run planned in stages becomes ``finalizing`` and any other run ends. ``cost``
    is added to the cost of the run so far.
    """
    counters = {name: run[name] + changes.get(name, 0) for name in rows.COUNTED}
    # In the last item's own transaction: no reader sees an ended run with open items, or the reverse.
    values = {**counters, **({} if counters["pending"] else _without_items(connection, run, counters, now))}
    if cost is not None:
        values["cost"] = (Cost.model_validate(run["cost"] or {}) + cost).model_dump()
        tallies.add(connection, run["id"], cost=cost)
    change(connection, run, values, message)


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
    values = {**counters, **_ending(connection, run["id"], counters, now)}
    if state is not None:
        document = None if problem is None else problem.model_dump(mode="json")
        values |= {"state": state, "problem": document}
    change(connection, run, {**values, "planning_fence": run["planning_fence"] + 1}, message)


def change(connection: Connection, run: RowMapping, values: Mapping[str, Any], message: str) -> None:
    """Write ``values`` into a locked run's row and record an event with its new state."""
    connection.execute(update(schema.runs).where(schema.runs.c.id == run["id"]).values(dict(values)))
    changed = {**run, **values}
    gone_on = tallies.change_of_state(run["state"], changed["state"])
    counts = {name: changed[name] for name in ("total", *rows.COUNTED)}
    record(connection, run["id"], changed["state"], counts, message)
    tallies.add(connection, run["id"], active=gone_on)


def record(connection: Connection, run_id: str, state: str, counts: Mapping[str, int], message: str) -> None:
    """Add an event; the run's row is locked, so event numbers of a run grow in the order of commits."""
    values = {"run_id": run_id, "state": state, "counts": dict(counts), "message": message}
    connection.execute(insert(schema.events).values(values))


def _without_items(
    connection: Connection, run: RowMapping, counters: Mapping[str, int], now: float
) -> dict[str, Any]:
    if run["staged"]:
        return {"state": "finalizing", "idle_until": None}
    return _ending(connection, run["id"], counters, now)


def _ending(connection: Connection, run_id: str, counters: Mapping[str, int], now: float) -> dict[str, Any]:
    state = end_state(counters)
    problem = _first_problem(connection, run_id) if state == "failed" else None
    return {"state": state, "ended_at": now, "problem": problem, "idle_until": None}


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
