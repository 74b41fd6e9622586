"""Stages: leases to plan the next stage of a run without open items, and storing the plan.

The first stage of a large run is stored in chunks while the run is ``validating``.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, RowMapping, and_, delete, false, func, or_, select, update
from sqlalchemy.exc import IntegrityError

from counterpose_core.contract.base import Problem
from counterpose_core.errors import CounterposeError, InternalError, LeaseLost, error_for
from counterpose_core.types import RunState
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.runs import transitions
from counterpose_gateway.ledger.runs.changes import begin_cancelling, cancel_rest
from counterpose_gateway.ledger.runs.transitions import NewItems, change, insert_items, new_items
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.items import MAX_ATTEMPTS, RETRY_SECONDS, LeasedStage, PlannedItem
from counterpose_gateway.records.pace import in_chunks

WAITING_STATES = ("validating", "finalizing")
"""The states of runs that a planner leases."""

_runs = schema.runs.c
_items = schema.items.c

# Not the whole row: a configuration may have a megabyte, and it would be read once a chunk.
_NEEDED = (
    _runs.id, _runs.state, _runs.stage, _runs.planning_fence, _runs.total,
    *(_runs[name] for name in rows.COUNTED),
)  # fmt: skip


class Stages:
    """The stages of runs, as planners lease and store them.

    Every method that takes a `LeasedStage` raises LeaseLost if the lease is void: another process plans the
    stage now, the stage has opened, or the run has ended.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def lease(
        self,
        kinds: Collection[str],
        *,
        seconds: float,
        first_of: Collection[str] = (),
        run_id: str | None = None,
    ) -> LeasedStage | None:
        """Lease the planning of a run, the one that waits longest first.

        A run whose stage was leased ``MAX_ATTEMPTS`` times without an answer fails instead.

        Args:
            kinds: kinds of runs that wait for a later stage.
            seconds: how long the lease holds.
            first_of: kinds of runs whose first stage is not stored whole.
            run_id: the only run to plan; None for any.
        """
        given_up: list[str] = []
        leased = self._session.lease_first(
            lambda connection: self._waiting(connection, kinds, first_of, run_id),
            lambda connection, found: self._lease_waiting(
                connection, rows.locked_run(connection, found), seconds, given_up
            ),
        )
        for run_id in given_up:
            cancel_rest(self._session, run_id)
        return leased

    def renew(self, leased: LeasedStage, seconds: float) -> None:
        """Prolong the lease."""
        with self._session.writing() as connection:
            run = _held(connection, leased)
            _set(connection, run, {"planning_due_at": self._session.lease_time() + seconds})

    def is_ours(self, leased: LeasedStage) -> bool:
        """Return whether the lease still holds; this waits for no writer."""
        with self._session.reading() as connection:
            mine = select(_runs.id).where(_runs.id == leased.run_id, _mine(leased))
            return rows.first(connection, mine) is not None

    def clear(self, leased: LeasedStage) -> None:
        """Delete what a planner that died has stored of the stage.

        The plan is replaced, not completed: items resumed between the two plans have other results by now.
        """
        in_chunks(lambda size: self._clear_some(leased, size))

    def store(self, leased: LeasedStage, items: Sequence[PlannedItem]) -> float:
        """Store some more items of the stage; they are not visible, leased or counted before it opens.

        Returns:
            for how many seconds the ledger was locked.

        Raises:
            InternalError: the run has an item of the same key.
        """
        # Made before the transaction: the lock is held for the writing alone.
        planned = new_items(leased.run_id, items, stage=leased.stage, first=leased.first)
        try:
            with self._session.writing() as connection:
                start = time.perf_counter()
                _held(connection, leased)
                insert_items(connection, planned)
            return time.perf_counter() - start
        except IntegrityError as error:
            repeated = self._repeated_keys(leased, items)
            if not repeated:
                raise
            raise InternalError(f"stage {leased.stage} repeats the item key {repeated[0]!r}") from error

    def store_first(
        self, leased: LeasedStage, items: Sequence[PlannedItem], *, last: bool
    ) -> tuple[LeasedStage, float]:
        """Add some items to a run that is being planned; with the ``last`` ones it waits for a worker.

        Returns:
            the lease for the items after these, and for how many seconds the ledger was locked.

        Raises:
            LeaseLost: another process plans the run now, has stored these items, or the run has ended.
            InternalError: the run has an item of the same key.
        """
        # Made before the transaction: the lock is held for the writing alone.
        planned = new_items(leased.run_id, items)
        with self._session.writing() as connection:
            start = time.perf_counter()
            run = _held_first(connection, leased)
            _insert_first(connection, leased, planned)
            added = len(planned)
            values: dict[str, Any] = {
                "total": run["total"] + added, "pending": run["pending"] + added,
                # A planner that gets on may be killed as often as it likes.
                "planning_attempts": 0,
            }  # fmt: skip
            if last:
                values |= {"state": "queued", "plan_sources": None, "planning_due_at": 0.0}
            change(connection, run, values, f"{'all ' if last else ''}{values['total']} items are planned")
        locked = time.perf_counter() - start
        if last:
            # To a server that has not seen them yet, a table with a million new open items is an empty one:
            # it reads them all to lease a group.
            self._session.database.sample("items")
        return replace(leased, first=leased.first + added), locked

    def open(self, leased: LeasedStage, n_items: int) -> None:
        """Add the stored items to the run: the total grows by them and they can be leased.

        An empty stage opens and ends at once; the run stays ``finalizing`` for the stage after it.

        Raises:
            InternalError: not ``n_items`` are stored.
        """
        # Counted before the ledger is locked, which takes long of a million: nobody else may store any.
        with self._session.reading() as connection:
            stored = connection.execute(select(func.count()).where(_unopened(leased))).scalar_one()
        with self._session.writing() as connection:
            run = _held(connection, leased)
            if stored != n_items:
                raise InternalError(
                    f"{stored} items of stage {leased.stage} are stored, {n_items} were planned"
                )
            going_on = "in_progress" if run["started_at"] else "queued"
            values: dict[str, Any] = {
                "stage": leased.stage, "total": run["total"] + n_items, "pending": n_items,
                "state": going_on if n_items else "finalizing",
                "planning_attempts": 0, "planning_due_at": 0.0,
            }  # fmt: skip
            change(connection, run, values, f"stage {leased.stage} opened with {n_items} items")

    def end(self, leased: LeasedStage) -> None:
        """End the run: its method plans no further stage."""
        with self._session.writing() as connection:
            run = _held(connection, leased)
            transitions.end(
                connection, run, now=self._session.clock(), message=f"no stage follows stage {run['stage']}"
            )

    def fail(self, leased: LeasedStage, error: CounterposeError) -> None:
        """Let the stage be planned again after a pause, or fail the run if that would be useless."""
        with self._session.writing() as connection:
            run = _held(connection, leased)
            if error.retryable and run["planning_attempts"] < MAX_ATTEMPTS:
                pause = RETRY_SECONDS * 2 ** (run["planning_attempts"] - 1)
                again = {
                    "planning_due_at": self._session.lease_time() + pause,
                    "planning_fence": leased.fence + 1,
                }
                _set(connection, run, again)
            else:
                self._fail(connection, run, error)
        cancel_rest(self._session, leased.run_id)

    def release(self, leased: LeasedStage) -> None:
        """Give the lease back: a planner that stops cleanly costs no attempt."""
        with self._session.writing() as connection:
            run = _held(connection, leased)
            attempts = max(0, run["planning_attempts"] - 1)
            free = {"planning_due_at": 0.0, "planning_fence": leased.fence + 1, "planning_attempts": attempts}
            _set(connection, run, free)

    def _repeated_keys(self, leased: LeasedStage, items: Sequence[PlannedItem]) -> list[str]:
        keys = [item.item_key for item in items]
        stored = select(_items.item_key).where(_items.run_id == leased.run_id, _items.item_key.in_(keys))
        with self._session.reading() as connection:
            counted = Counter([*keys, *connection.execute(stored).scalars()])
        return [key for key in keys if counted[key] > 1]

    def _waiting(
        self, connection: Connection, kinds: Collection[str], first_of: Collection[str], run_id: str | None
    ) -> str | None:
        # As text, not as parameters: SQLite uses a partial index only if it sees the index's own condition.
        wanted = [
            and_(_runs.state == state, _runs.kind.in_(of))
            for state, of in (("finalizing", kinds), ("validating", first_of))
            if of
        ]
        now = self._session.lease_time()
        due = and_(schema.RUNS_TO_PLAN, _runs.planning_due_at <= now, or_(false(), *wanted))
        if run_id is not None:
            due = and_(due, _runs.id == run_id)
        query = select(_runs.id).where(due).order_by(_runs.planning_due_at, _runs.created_at, _runs.id)
        found = rows.first(connection, query)
        return None if found is None else str(found["id"])

    def _lease_waiting(
        self, connection: Connection, run: RowMapping, seconds: float, given_up: list[str]
    ) -> LeasedStage | None:
        # On PostgreSQL another planner may have come between the look and the lock.
        if run["state"] not in WAITING_STATES or run["planning_due_at"] > self._session.lease_time():
            return None
        if run["planning_attempts"] >= MAX_ATTEMPTS:
            detail = f"{MAX_ATTEMPTS} workers began to plan it and none came back"
            self._fail(connection, run, LeaseLost(detail))
            given_up.append(run["id"])
            return None
        fence = run["planning_fence"] + 1
        lease = {"planning_fence": fence, "planning_attempts": run["planning_attempts"] + 1}
        _set(connection, run, {**lease, "planning_due_at": self._session.lease_time() + seconds})
        return LeasedStage(
            run_id=run["id"],
            kind=run["kind"],
            stage=run["stage"] + (run["state"] == "finalizing"),
            first=run["total"],
            fence=fence,
            sources=run["plan_sources"] or {},
        )

    def _clear_some(self, leased: LeasedStage, size: int) -> tuple[int, float]:
        with self._session.writing() as connection:
            start = time.perf_counter()
            _held(connection, leased)
            some = select(_items.id).where(_unopened(leased)).limit(size)
            cleared = connection.execute(delete(schema.items).where(_items.id.in_(some))).rowcount
            return cleared, time.perf_counter() - start

    def _fail(self, connection: Connection, run: RowMapping, error: CounterposeError) -> None:
        stage = run["stage"] + (run["state"] == "finalizing")
        why = error_for(error.code, f"stage {stage} could not be planned: {error.detail}")
        # Items of a first stage that is not stored whole are open; of a later one, none is there.
        begin_cancelling(
            connection, run, now=self._session.clock(), message=why.detail, problem=Problem.of(why)
        )


def _mine(leased: LeasedStage) -> Any:
    """The condition on a run's row under which the lease holds.

    The stage and not the fence alone: after its opening the run may be finalizing again under the same fence.
    """
    state, stage = _place(leased)
    return and_(_runs.state == state, _runs.stage == stage, _runs.planning_fence == leased.fence)


def _place(leased: LeasedStage) -> tuple[RunState, int]:
    """Return the state and the stage of the run while the lease holds."""
    return ("validating", 1) if leased.stage == 1 else ("finalizing", leased.stage - 1)


def _held(connection: Connection, leased: LeasedStage) -> RowMapping:
    run = rows.locked_run(connection, leased.run_id)
    ours = (*_place(leased), leased.fence)
    if (run["state"], run["stage"], run["planning_fence"]) != ours:
        raise LeaseLost(f"the lease to plan stage {leased.stage} of run {leased.run_id!r} is no longer valid")
    return run


def _unopened(leased: LeasedStage) -> Any:
    # By ordinals, which have an index: opened stages have the smaller ones.
    return and_(_items.run_id == leased.run_id, _items.ordinal >= leased.first)


def _set(connection: Connection, run: RowMapping, values: dict[str, Any]) -> None:
    connection.execute(update(schema.runs).where(_runs.id == run["id"]).values(values))


def _insert_first(connection: Connection, leased: LeasedStage, planned: NewItems) -> None:
    try:
        insert_items(connection, planned)
    except IntegrityError as error:
        first = planned.rows[0]["ordinal"]
        raise InternalError(
            f"the plan of run {leased.run_id!r} repeats an item key among the {len(planned)} from {first}"
        ) from error


def _held_first(connection: Connection, leased: LeasedStage) -> RowMapping:
    query = select(*_NEEDED).where(_runs.id == leased.run_id).with_for_update()
    run = rows.first(connection, query)
    if run is None:
        raise rows.absent(connection, leased.run_id)
    found = (run["state"], run["planning_fence"], run["total"])
    # The total, too: two planners with one fence would be those of two requests with one idempotency key.
    if found != ("validating", leased.fence, leased.first):
        raise LeaseLost(f"the lease to plan run {leased.run_id!r} is no longer valid")
    return run
