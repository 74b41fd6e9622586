"""Resume ended runs: a small one at once, a large one in chunks while it is ``resuming``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from sqlalchemy import Connection, RowMapping, select, update

from counterpose_core.errors import RunNotResumable
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger import access
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.runs.transitions import change, move
from counterpose_gateway.ledger.tables import rows, schema, totals
from counterpose_gateway.records.pace import in_chunks, never

RESUMED_AT_ONCE = 1_000
"""Failed and cancelled items up to which a run is resumed in one transaction."""

_TRIED_AGAIN = ("failed", "cancelled")

# As if it had never been served: the user who resumes a run waits for it now.
_AWAKENED = {
    "state": "resuming", "ended_at": None, "problem": None, "served_at": 0.0, "idle_until": None,
    "planning_attempts": 0, "planning_due_at": 0.0,
}  # fmt: skip

_runs = schema.runs.c
_items = schema.items.c


def resume(session: Session, run_id: str, functions: Mapping[str, str] | None) -> None:
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
    if again > RESUMED_AT_ONCE:
        change(connection, run, _AWAKENED, f"resumed: {again} items are being opened again")
        return
    connection.execute(update(schema.runs).where(_runs.id == run["id"]).values(_AWAKENED))
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
