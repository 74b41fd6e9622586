"""How a run moves: counters, its end, and the event that each change leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, RowMapping, insert, select, update

from faultline_core.contract.base import Problem
from faultline_core.errors import error_for
from faultline_core.types import Cost, RunState
from faultline_gateway.ledger import rows, schema

ACTIVE_STATES: tuple[RunState, ...] = ("queued", "in_progress")


def move(
    connection: Connection,
    run: RowMapping,
    changes: Mapping[str, int],
    *,
    now: float,
    message: str,
    cost: Cost | None = None,
) -> None:
    """Apply ``changes`` to a locked run's counters, end it where nothing is pending, record the event.

    ``cost`` is added to what the run took so far.
    """
    counters = {name: run[name] + changes.get(name, 0) for name in rows.COUNTED}
    # In the last item's own transaction: nobody ever sees an ended run with open items, or the reverse.
    ending = _ending(connection, run["id"], counters, now) if counters["pending"] == 0 else {}
    values = {**counters, **ending}
    if cost is not None:
        values["cost"] = (Cost.model_validate(run["cost"] or {}) + cost).model_dump()
    connection.execute(update(schema.runs).where(schema.runs.c.id == run["id"]).values(values))
    record(
        connection, run["id"], values.get("state", run["state"]), {"total": run["total"], **counters}, message
    )


def record(connection: Connection, run_id: str, state: str, counts: Mapping[str, int], message: str) -> None:
    """Add an event; the run's row is locked, so event numbers of a run grow in the order of commits."""
    values = {"run_id": run_id, "state": state, "counts": dict(counts), "message": message}
    connection.execute(insert(schema.events).values(values))


def _ending(connection: Connection, run_id: str, counters: Mapping[str, int], now: float) -> dict[str, Any]:
    state = end_state(counters)
    problem = _first_problem(connection, run_id) if state == "failed" else None
    return {"state": state, "ended_at": now, "problem": problem}


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
