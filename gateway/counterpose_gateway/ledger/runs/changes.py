"""Cancel runs: a small one at once, a large one in chunks while it is ``cancelling``.

Resume ended runs: a small one at once, a large one in chunks while it is ``resuming``.

Delete runs that have ended; what is left of one is its id, its kind and what it cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    RowMapping,
    String,
    Table,
    bindparam,
    cast,
    delete,
    insert,
    select,
    update,
)

from counterpose_core.contract.base import Problem
from counterpose_core.contract.spending import LargerLimits
from counterpose_core.errors import CounterposeError, RunNotCancellable, RunNotDeletable, RunNotResumable
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger import access
from counterpose_gateway.ledger.blobs import digests_in, loosen
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.runs import turns
from counterpose_gateway.ledger.runs.limits import limits_of, write_limits
from counterpose_gateway.ledger.runs.transitions import change, end, move
from counterpose_gateway.ledger.tables import rows, schema, totals
from counterpose_gateway.records.pace import in_chunks, never
from counterpose_gateway.records.spending import Allotment

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


RESUMED_AT_ONCE = 1_000
"""Failed and cancelled items up to which a run is resumed in one transaction."""

_TRIED_AGAIN = ("failed", "cancelled")

_AWAKENED = {
    "state": "resuming", "ended_at": None, "problem": None, "idle_until": None,
    "planning_attempts": 0, "planning_due_at": 0.0,
}  # fmt: skip


def resume(
    session: Session, run_id: str, functions: Mapping[str, str] | None, budget: LargerLimits | None = None
) -> None:
    """Let a run go on as `Runs.resume` says."""
    with session.writing() as connection:
        run = rows.locked_run(connection, run_id)
        if functions:
            again = (run["functions"] or {}) | dict(functions)
            connection.execute(update(schema.runs).where(_runs.id == run_id).values(functions=again))
        if run["state"] != "resuming":
            allowance = access.allowance(connection, run["tenant"], session.clock())
            if (refusal := allowance.refusal()) is not None:
                raise refusal
        limits = limits_of(connection, run_id)
        if limits is not None or budget is not None:
            write_limits(connection, run_id, (limits or Allotment()).raised(budget, run_id))
        if run["state"] != "resuming":
            _begin(connection, run, now=session.clock())
    resume_rest(session, run_id)


def _begin(connection: Connection, run: RowMapping, *, now: float) -> None:
    again = run["failed"] + run["cancelled"]
    # Without such items, the run failed or was cancelled between two stages.
    unfinished = again or run["state"] in ("failed", "cancelled")
    if run["state"] not in FINAL_RUN_STATES or not unfinished:
        raise RunNotResumable(
            f"run {run['id']!r} is {run['state']}; "
            "only an ended run with failed or cancelled items or stages can be resumed"
        )
    awakened = _AWAKENED | {"served_at": turns.place(connection, run["id"], run["tenant"])}
    if again > RESUMED_AT_ONCE:
        change(connection, run, awakened, f"resumed: {again} items are being opened again")
        return
    connection.execute(update(schema.runs).where(_runs.id == run["id"]).values(awakened))
    totals.add(connection, run["id"], active=1)
    _Reopening().chunk(connection, rows.locked_counters(connection, run["id"]), RESUMED_AT_ONCE + 1, now=now)


def resume_rest(session: Session, run_id: str, stopped: Callable[[], bool] = never) -> None:
    """Open the items of a ``resuming`` run in chunks and let it go on; other runs are left alone."""
    reopening = _Reopening()

    def reopen_chunk(size: int) -> tuple[int, float]:
        with session.writing() as connection:
            start = time.perf_counter()
            run = rows.locked_counters(connection, run_id)
            # Two processes may do this at once; one of them lets the run go on.
            if run["state"] != "resuming":
                return 0, 0.0
            some = reopening.chunk(connection, run, size, now=session.clock())
            return some, time.perf_counter() - start

    in_chunks(reopen_chunk, stopped=stopped)


class _Reopening:
    """Opens a run's items by state and ordinal; it remembers its place.

    On PostgreSQL a search from the start would walk over the index's entries of all items opened before.
    """

    def __init__(self) -> None:
        self._after = dict.fromkeys(_TRIED_AGAIN, -1)

    def chunk(self, connection: Connection, run: RowMapping, size: int, *, now: float) -> int:
        """Open ``size`` items of a locked run that is ``resuming``, or the rest, and let it go on then.

        Returns:
            how many were opened, or ``size`` if more are left.
        """
        from_start = all(place == -1 for place in self._after.values())
        opened = dict.fromkeys(_TRIED_AGAIN, 0)
        for state in _TRIED_AGAIN:
            opened[state] = self._open_some(connection, run, state, size - sum(opened.values()))
        some = sum(opened.values())
        changes = {"pending": some, **{state: -number for state, number in opened.items()}}
        if some < size and (from_start or some == run["failed"] + run["cancelled"]):
            state = "queued" if run["plan_sources"] is None else "validating"
            connection.execute(update(schema.runs).where(_runs.id == run["id"]).values(state=state))
            # Read again: the following code writes the state that it reads, which has just changed.
            run = rows.locked_counters(connection, run["id"])
            move(connection, run, changes, now=now, message="resumed")
            return some
        if some < size:
            # Cancelled and resumed by others between two chunks: some are behind our place.
            self._after = dict.fromkeys(_TRIED_AGAIN, -1)
        counters = {name: run[name] + number for name, number in changes.items()}
        change(connection, run, counters, f"{some} more items are open again")
        return size

    def _open_some(self, connection: Connection, run: RowMapping, state: str, most: int) -> int:
        mine = (
            (_items.run_id == run["id"])
            & (_items.state == state)
            & rows.ENDED
            & (_items.ordinal > self._after[state])
        )
        # Two statements: PostgreSQL may join a limited subselect with all items of the run.
        some = select(_items.ordinal).where(mine).order_by(_items.ordinal).limit(most)
        ordinals = connection.execute(some).scalars().all()
        if ordinals:
            # Their leases ended, so a worker from before cannot record them. Why they failed is told no more:
            # cancelled before they end, they would seem to have failed so.
            fresh = {"state": "pending", "worker": None, "attempts": 0, "due_at": 0.0}
            fresh |= {"code": None, "detail": None}
            opening = update(schema.items).where(mine, _items.ordinal <= ordinals[-1]).values(fresh)
            connection.execute(opening)
            self._after[state] = ordinals[-1]
        return len(ordinals)


DELETED_AT_ONCE = 1_000
"""Rows deleted in one transaction at most, which locks the ledger for about 10 ms."""


_PLACES: Sequence[tuple[Column[Any], int | str]] = (
    (schema.items.c.ordinal, -1), (schema.events.c.id, -1), (schema.shift_decisions.c.id, -1),
    (schema.deliveries.c.id, -1), (schema.blob_uses.c.ref, ""), (schema.spending.c.call, ""),
    (schema.spending_limits.c.run_id, ""),
)  # fmt: skip
"""The column by which each table's rows of a run are indexed, and a place before the first."""


def delete_run(session: Session, run_id: str) -> None:
    """Delete a run as `Runs.delete` says."""
    with session.writing() as connection:
        run = rows.locked_run(connection, run_id)
        if run["state"] not in FINAL_RUN_STATES:
            raise RunNotDeletable(f"run {run_id!r} is {run['state']}; cancel it, then delete it")
        parent = run["parent"]
        if parent and rows.first(connection, select(_runs.id).where(_runs.id == parent, rows.KEPT)):
            # Evidence that multiplies over attempts is only valid if no attempt can be left out.
            raise RunNotDeletable(
                f"run {run_id!r} is part of the evidence of run {parent!r}; delete that one first"
            )
        # Its key is free: who deletes a run may send its request again.
        hidden = {"state": "deleting", "idempotency_key": None}
        connection.execute(update(schema.runs).where(_runs.id == run_id).values(hidden))
        # The cost goes on counting: a counter of money that falls would alarm whoever watches it.
        gone = {"id": run_id, "kind": run["kind"], "deleted_at": session.clock()}
        gone |= {"cost": run["cost"], "tenant": run["tenant"]}
        connection.execute(insert(schema.deleted_runs).values(gone))
    delete_rest(session, run_id)


def delete_rest(session: Session, run_id: str, stopped: Callable[[], bool] = never) -> None:
    """Delete the rows of a run that is being deleted in chunks, the run's own last."""
    for place, before in _PLACES:
        _delete_rows(session, run_id, place, before, stopped)
    if stopped():
        return
    with session.erasing() as connection:
        config = select(cast(_runs.config, String)).where(_runs.id == run_id, _runs.state == "deleting")
        loosen(connection, session.clock(), digests_in(connection.execute(config).scalars()))
        connection.execute(delete(schema.runs).where(_runs.id == run_id, _runs.state == "deleting"))


def _delete_rows(
    session: Session, run_id: str, place: Column[Any], after: int | str, stopped: Callable[[], bool]
) -> None:
    table = place.table
    assert isinstance(table, Table)  # a column of the schema
    # On PostgreSQL a search from the start would walk over the index's entries of all rows deleted before.

    def delete_chunk(size: int) -> tuple[int, float]:
        nonlocal after
        with session.erasing() as connection:
            start = time.perf_counter()
            if not rows.lock_deleted(connection, run_id):
                return 0, 0.0
            mine = (table.c.run_id == run_id) & (place > after)
            some = select(place).where(mine).order_by(place).limit(size)
            found = connection.execute(some).scalars().all()
            if found:
                if table is schema.blob_uses:
                    loosen(connection, session.clock(), found)
                after = found[-1]
                connection.execute(delete(table).where(mine, place <= after))
            return len(found), time.perf_counter() - start

    in_chunks(delete_chunk, DELETED_AT_ONCE, stopped=stopped)
