"""Leases: which worker holds which items, and until when.

Where work is: the run to serve next, and its first item, each found by an index whatever the ledger holds.

A run with open items is *to serve* or *idle*. It becomes idle when a look finds none of its items ready: all
are leased, or paused after a failure. `idle_until` then says when the first of them may be ready, so the run
is not looked at again before. A run is to serve too often rather than too seldom: a lease that is renewed
leaves `idle_until` as it is, and the next look sets it anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, get_args

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, bindparam, literal_column, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from counterpose_core.errors import BudgetSpent, CounterposeError, LeaseLost
from counterpose_core.kinds import KINDS, ItemKind
from counterpose_gateway.ledger import access
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.runs import turns
from counterpose_gateway.ledger.runs.changes import stop
from counterpose_gateway.ledger.runs.limits import limits_of
from counterpose_gateway.ledger.runs.transitions import Step, move_by, record
from counterpose_gateway.ledger.tables import rows, schema, totals
from counterpose_gateway.records.items import MAX_ATTEMPTS, LeasedGroup, LeasedItem
from counterpose_gateway.records.measurements import LEASE_LOST, Attempt

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
    """Lock the run whose turn it is among those whose rows nobody holds; this never waits."""
    return connection.execute(_FIRST_FREE).mappings().first()


def run_to_serve(connection: Connection) -> str | None:
    """Return the id of the run whose turn it is, though another transaction may hold its row."""
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


HELD_SECONDS = 2.0
"""Between two looks at a run whose quota or budget is used up, while some items are being worked on."""

UNEXPECTED_SECONDS = 60.0
"""How long a run rests that goes on without an open item, which its counters forbid."""


def _lease_of_ready(*wanted: ColumnElement[bool]) -> ReturningUpdate[*tuple[Any, ...]]:
    of_run = and_(_items.run_id == bindparam("run"), _items.stage <= bindparam("open_stage"))
    values = {
        "state": "leased", "worker": bindparam("of_worker"), "due_at": bindparam("until"),
        "fence": _items.fence + 1, "attempts": _items.attempts + 1,
    }  # fmt: skip
    ready = and_(rows.OPEN, KNOWN_ITEM, _items.due_at <= bindparam("now"))
    returned = [_items[name] for name in (*rows.LEASED_FIELDS, "attempts")]
    return update(schema.items).where(of_run, *wanted, ready).values(values).returning(*returned)


_LEASE_ITEM = _lease_of_ready(_items.id == bindparam("which"))

_LEASE_GROUP = _lease_of_ready(
    _items.item_group == bindparam("which"), _items.attempts < MAX_ATTEMPTS - 1
)  # fmt: skip

_NAMED = _items.id.in_(bindparam("ids", expanding=True))
_LEASED = select(_items.id, _items.fence).where(_NAMED, rows.LEASED)
_RENEW = update(schema.items).where(_NAMED).values(due_at=bindparam("until"))

_RELEASE = (
    update(schema.items)
    .where(_NAMED)
    .values(state="pending", worker=None, due_at=0.0, attempts=_items.attempts - 1)
)


class _Again(Enum):
    AGAIN = "again"


class _SpentError(Exception):
    """A run's tenant has used up its quota, or the run its budget."""

    def __init__(self, run_id: str, why: CounterposeError) -> None:
        super().__init__(run_id)
        self.run_id, self.why = run_id, why


AGAIN = _Again.AGAIN
"""One look found nothing; there may be work in another run."""


def lease_groups(
    session: Session, worker: str, *, seconds: float, most: int, run_id: str | None = None
) -> list[LeasedGroup]:
    """Lease groups as `Items.lease_many` says."""
    if run_id is not None:
        if not _may_have_work_in(session, run_id):
            return []
        session.lease_time.note()
        try:
            with session.writing() as connection:
                run = rows.locked_run(connection, run_id)
                return _leases_of(session, connection, run, worker, seconds, most)
        except _SpentError as spent:
            stop(session, spent.run_id, spent.why)
            return []
    # Idle workers ask twice a second each; without work they must not queue for SQLite's write lock.
    if session.database.is_sqlite and not _may_have_work(session):
        return []
    session.lease_time.note()
    while True:
        try:
            leased = _leases_of_next(session, worker, seconds, most)
        except _SpentError as spent:
            stop(session, spent.run_id, spent.why)
            continue
        if not isinstance(leased, _Again):
            return leased


def renew_groups(session: Session, groups: Sequence[LeasedGroup], seconds: float) -> list[str]:
    """Renew groups as `Items.renew_many` says."""
    session.lease_time.note()
    run_id = groups[0].run_id
    fences = {item.id: item.fence for group in groups for item in group.items}
    with session.writing() as connection:
        # Locks the run before its items, like every writer: otherwise two could wait for each other.
        run = rows.locked_counters(connection, run_id)
        if run["state"] == "cancelling":
            raise LeaseLost(f"run {run_id!r} is being cancelled; drop its results")
        found = connection.execute(_LEASED, {"ids": list(fences)})
        # The fence decides, not the worker's name: a process may restart under the same name.
        kept = [item_id for item_id, fence in found if fence == fences[item_id]]
        if kept:
            connection.execute(_RENEW, {"ids": kept, "until": session.lease_time() + seconds})
    return kept


def release(session: Session, group: LeasedGroup) -> None:
    """Return items as `Items.release` says."""
    with session.writing() as connection:
        run = rows.locked_counters(connection, group.run_id)
        fences = {item.id: item.fence for item in group.items}
        found = connection.execute(_LEASED, {"ids": list(fences)})
        held = [item_id for item_id, fence in found if fence == fences[item_id]]
        if held:
            connection.execute(_RELEASE, {"ids": held})
            _set(connection, run, {"idle_until": None})


def _may_have_work(session: Session) -> bool:
    with session.reading() as connection:
        return may_have_work(connection, session.lease_time())


def _may_have_work_in(session: Session, run_id: str) -> bool:
    with session.reading_last_commit() as connection:
        return run_may_have_work(connection, run_id, session.lease_time())


def _leases_of_next(session: Session, worker: str, seconds: float, most: int) -> list[LeasedGroup] | _Again:
    """Look at one run; `AGAIN` if it had nothing ready, or ended before its row was free."""
    # One transaction per run: on PostgreSQL a worker that held one run's row and waited for another's
    # could wait for a worker that waits for the first.
    with session.writing() as connection:
        awaken(connection, session.lease_time())
        run = locked_run_to_serve(connection)
        if run is not None:
            return _leases_of(session, connection, run, worker, seconds, most) or AGAIN
        held = run_to_serve(connection)
    if held is None:
        return []
    # Every run to serve is held, such as the only one: this worker waits for it like any other writer.
    with session.writing() as connection:
        return (
            _leases_of(session, connection, rows.locked_run(connection, held), worker, seconds, most) or AGAIN
        )


def _leases_of(
    session: Session, connection: Connection, run: RowMapping, worker: str, seconds: float, most: int
) -> list[LeasedGroup]:
    if run["state"] not in rows.OPEN_STATES:
        return []
    allowance = access.allowance(connection, run["tenant"], session.clock())
    if (refusal := allowance.refusal()) is not None:
        return _hold(session, connection, run, refusal)
    if (spent := _spent_budget(connection, run)) is not None:
        return _hold(session, connection, run, spent)
    now, groups, lost = session.lease_time(), list[LeasedGroup](), list[Attempt]()
    found = earliest_item(connection, run)
    while found is not None and found["due_at"] <= now and len(groups) < most:
        if found["attempts"] >= MAX_ATTEMPTS:
            break
        leased = _lease(session, connection, run, found, worker, now, until=now + seconds)
        if found["state"] == "leased":
            # Leased together, they ran out together: nobody came back with the outcomes.
            lost += [Attempt(item.kind, LEASE_LOST) for item in leased if item.attempt > 1]
        groups.append(_group(run, found["item_group"], leased))
        found = earliest_item(connection, run)
    if groups:
        _mark_served(session, connection, run, found, now)
    elif found is None or found["due_at"] > now:
        _set(connection, run, {"idle_until": _waiting_until(found, now)})
    else:
        _fail_exhausted(session, connection, run, found["item_group"], now)
    totals.add(connection, run["id"], attempts=lost)
    return groups


def _spent_budget(connection: Connection, run: RowMapping) -> BudgetSpent | None:
    # Few runs have one, and the others are leased without a further query.
    if not (run["config"].get("request") or {}).get("spending"):
        return None
    limits = limits_of(connection, run["id"])
    if limits is None or not limits.stopped:
        return None
    return BudgetSpent(f"{limits.says}; resume it with a larger one")


def _hold(
    session: Session, connection: Connection, run: RowMapping, why: CounterposeError
) -> list[LeasedGroup]:
    """Lease nothing more of a run: what is being worked on is recorded, and then the run ends.

    Raises:
        _SpentError: nothing is being worked on any more; the transaction has changed nothing.
    """
    now = session.lease_time()
    working = select(_items.id).where(_items.run_id == run["id"], rows.OPEN, _items.state == "leased")
    if connection.execute(working.where(_items.due_at > now).limit(1)).first() is None:
        raise _SpentError(run["id"], why)
    _set(connection, run, {"idle_until": now + HELD_SECONDS})
    return []


def _lease(
    session: Session,
    connection: Connection,
    run: RowMapping,
    found: RowMapping,
    worker: str,
    now: float,
    *,
    until: float,
) -> Sequence[LeasedItem]:
    # Those on their last attempt are left out of their group: they are leased one by one.
    statement = _LEASE_ITEM if found["attempts"] == MAX_ATTEMPTS - 1 else _LEASE_GROUP
    given = {
        "run": run["id"], "open_stage": run["stage"], "now": now, "until": until, "of_worker": worker,
        "which": found["id"] if statement is _LEASE_ITEM else found["item_group"],
    }  # fmt: skip
    leased = [rows.leased_item(row) for row in connection.execute(statement, given).mappings()]
    # RETURNING guarantees no order.
    return sorted(leased, key=lambda item: item.ordinal)


def _mark_served(
    session: Session, connection: Connection, run: RowMapping, following: RowMapping | None, now: float
) -> None:
    session.place = max(session.place, run["served_at"])
    behind = turns.place(connection, run["id"], run["tenant"], run["served_at"])
    # One that was idle does not make up for the turns that it had no use for.
    values: dict[str, Any] = {"served_at": max(behind, session.place), "state": "in_progress"}
    if run["state"] == "queued":
        values["started_at"] = run["started_at"] or max(session.clock(), run["created_at"])
        record(connection, run["id"], "in_progress", rows.counts(run).model_dump(), "started")
    # Known now rather than by the next worker, whose look would cost a transaction.
    idle = following is None or following["due_at"] > now
    _set(connection, run, {**values, "idle_until": _waiting_until(following, now) if idle else None})


def _fail_exhausted(
    session: Session, connection: Connection, run: RowMapping, item_group: str, now: float
) -> None:
    # Their workers died without recording them, and no other worker would.
    spent = and_(
        _items.run_id == run["id"], _items.item_group == item_group, _items.attempts >= MAX_ATTEMPTS,
        _ready(now),
    )  # fmt: skip
    detail = f"{MAX_ATTEMPTS} workers took this item and none came back"
    values = {"state": "failed", "worker": None, "code": LeaseLost.code, "detail": detail}
    failing = update(schema.items).where(spent).values(values).returning(_items.kind)
    kinds = connection.execute(failing).scalars().all()
    attempts = [Attempt(kind, outcome) for kind in kinds for outcome in (LEASE_LOST, "failed")]
    changes = {"pending": -len(kinds), "failed": len(kinds)}
    move_by(connection, run, [Step(changes=changes, message=detail, attempts=attempts)], now=session.clock())


def _ready(now: float) -> ColumnElement[bool]:
    return and_(rows.OPEN, _items.due_at <= now)


def _waiting_until(item: RowMapping | None, now: float) -> float:
    # A run that goes on has open items: of kinds that only another version knows, or its counters are wrong.
    return float(now + UNEXPECTED_SECONDS if item is None else item["due_at"])


def _set(connection: Connection, run: RowMapping, values: Mapping[str, Any]) -> None:
    connection.execute(update(schema.runs).where(schema.runs.c.id == run["id"]).values(dict(values)))


def _group(run: RowMapping, item_group: str, leased: Sequence[LeasedItem]) -> LeasedGroup:
    return LeasedGroup(
        run_id=run["id"], kind=run["kind"], config=run["config"], item_group=item_group, items=leased,
        functions=run["functions"] or {}, trace=run["trace"],
    )  # fmt: skip
