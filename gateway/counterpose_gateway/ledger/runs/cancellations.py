"""Cancel runs: a small one at once, a large one in chunks while it is ``cancelling``."""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import Connection, RowMapping, bindparam, select, update

from counterpose_core.contract.base import Problem
from counterpose_core.errors import CounterposeError, RunNotCancellable
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.runs.transitions import change, end
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.pace import in_chunks, never

CANCELLED_AT_ONCE = 1_000
"""Open items up to which a run is cancelled in one transaction."""

_runs = schema.runs.c
_items = schema.items.c
STATE = select(_runs.state).where(_runs.id == bindparam("run"), rows.OWN, rows.KEPT)


def cancel(session: Session, run_id: str) -> None:
    """End a run as `Runs.cancel` says."""
    with session.writing() as connection:
        run = rows.locked_run(connection, run_id)
        if run["state"] in FINAL_RUN_STATES:
            raise RunNotCancellable(
                f"run {run_id!r} is already {run['state']}; only a run that has not ended can be cancelled"
            )
        begin_cancelling(connection, run, now=session.clock(), message="cancelled")
    cancel_rest(session, run_id)


def stop(session: Session, run_id: str, why: CounterposeError) -> None:
    """End a run as `Runs.stop` says."""
    with session.writing() as connection:
        run = rows.locked_run(connection, run_id)
        if run["state"] in FINAL_RUN_STATES:
            return
        begin_cancelling(connection, run, now=session.clock(), message=why.detail, problem=Problem.of(why))
    cancel_rest(session, run_id)


def begin_cancelling(
    connection: Connection, run: RowMapping, *, now: float, message: str, problem: Problem | None = None
) -> None:
    """Cancel a locked run's open items and end it; one with many is ``cancelling`` until `cancel_rest`.

    With a ``problem`` the run ends as failed.
    """
    if run["state"] == "cancelling":
        return
    if run["pending"] <= CANCELLED_AT_ONCE:
        cancelled = _cancel_some(connection, run, CANCELLED_AT_ONCE)
        _end(connection, run, problem, now=now, message=message, cancelled=cancelled)
        return
    document = None if problem is None else problem.model_dump(mode="json")
    values = {
        "state": "cancelling", "problem": document, "idle_until": None,
        "planning_fence": run["planning_fence"] + 1,
    }  # fmt: skip
    change(connection, run, values, f"{message}: {run['pending']} items are being cancelled")


def cancel_rest(session: Session, run_id: str, stopped: Callable[[], bool] = never) -> None:
    """Cancel the open items of a ``cancelling`` run in chunks and end it; other runs are left alone."""

    def cancel_chunk(size: int) -> tuple[int, float]:
        with session.writing() as connection:
            start = time.perf_counter()
            run = rows.locked_counters(connection, run_id)
            # Two processes may do this at once; one of them ends the run.
            if run["state"] != "cancelling":
                return 0, 0.0
            cancelled = _cancel_some(connection, run, size)
            if cancelled < size:
                query = select(_runs.problem).where(_runs.id == run_id)
                known = connection.execute(query).scalar_one()
                problem = None if known is None else Problem.model_validate(known)
                _end(connection, run, problem, now=session.clock(), message="cancelled", cancelled=cancelled)
                return cancelled, time.perf_counter() - start
            values = {"pending": run["pending"] - cancelled, "cancelled": run["cancelled"] + cancelled}
            change(connection, run, values, f"{cancelled} more items are cancelled")
            return cancelled, time.perf_counter() - start

    in_chunks(cancel_chunk, stopped=stopped)


def _cancel_some(connection: Connection, run: RowMapping, most: int) -> int:
    mine = (_items.run_id == run["id"]) & (_items.stage <= run["stage"]) & rows.OPEN
    some = select(_items.id).where(mine).limit(most)
    # Their leases end, so a worker that still holds one cannot record it.
    values = {"state": "cancelled", "worker": None}
    return connection.execute(update(schema.items).where(_items.id.in_(some)).values(values)).rowcount


def _end(
    connection: Connection,
    run: RowMapping,
    problem: Problem | None,
    *,
    now: float,
    message: str,
    cancelled: int,
) -> None:
    end(
        connection, run, now=now, message=message if problem is None else problem.detail,
        state="cancelled" if problem is None else "failed", problem=problem, cancelled=cancelled,
    )  # fmt: skip
