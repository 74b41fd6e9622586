"""Leases: which worker holds which items, and until when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, bindparam, or_, update
from sqlalchemy.sql.dml import ReturningUpdate

from faultline_core.errors import LeaseLost
from faultline_gateway.ledger import rows, schema, work
from faultline_gateway.ledger.database import LedgerPart
from faultline_gateway.ledger.lease_time import LeaseTime
from faultline_gateway.ledger.transitions import OPEN_STATES, move, record
from faultline_gateway.runs.items import MAX_ATTEMPTS, LeasedGroup, LeasedItem

UNEXPECTED_SECONDS = 60.0
"""How long a run rests that goes on without an open item, which its counters forbid."""

_items = schema.items.c


def _lease_of_ready(*wanted: ColumnElement[bool]) -> ReturningUpdate[*tuple[Any, ...]]:
    of_run = and_(_items.run_id == bindparam("run"), _items.stage <= bindparam("open_stage"))
    values = {
        "state": "leased", "worker": bindparam("of_worker"), "due_at": bindparam("until"),
        "fence": _items.fence + 1, "attempts": _items.attempts + 1,
    }  # fmt: skip
    ready = and_(work.OPEN, _items.due_at <= bindparam("now"))
    returned = [_items[name] for name in (*rows.LEASED_FIELDS, "attempts")]
    return update(schema.items).where(of_run, *wanted, ready).values(values).returning(*returned)


_LEASE_ITEM = _lease_of_ready(_items.id == bindparam("which"))
_LEASE_GROUP = _lease_of_ready(
    _items.item_group == bindparam("which"), _items.attempts < MAX_ATTEMPTS - 1
)  # fmt: skip


class _Again(Enum):
    AGAIN = "again"


AGAIN = _Again.AGAIN
"""One look found nothing; there may be work in another run."""


class Leases(LedgerPart):
    """The part of the ledger that workers call."""

    _lease_time: LeaseTime

    def lease_group(self, worker: str, *, seconds: float, run_id: str | None = None) -> LeasedGroup | None:
        """Lease all ready items of one group of one run; the run that was served longest ago comes first.

        An item's last attempt is leased alone: if it kills its worker, it takes no other item with it.
        """
        if run_id is not None:
            self._lease_time.note()
            with self._database.writing() as connection:
                run = rows.locked_run(connection, run_id)
                return self._lease_of(connection, run, worker, seconds)
        # Idle workers ask twice a second each; without work they must not queue for SQLite's write lock.
        if self._database.is_sqlite and not self._may_have_work():
            return None
        self._lease_time.note()
        while True:
            leased = self._lease_of_next(worker, seconds)
            if not isinstance(leased, _Again):
                return leased

    def renew(self, group: LeasedGroup, seconds: float) -> list[str]:
        """Renew the leases that are still ours and return their item ids.

        Raises:
            LeaseLost: no lease is left: all items were recorded, cancelled or leased to others.
        """
        self._lease_time.note()
        with self._database.writing() as connection:
            # Locks the run before its items, like every writer: otherwise two could wait for each other.
            run = rows.locked_counters(connection, group.run_id)
            if run["state"] == "cancelling":
                raise LeaseLost(f"run {group.run_id!r} is being cancelled; drop its results")
            held = or_(*(_held(item.id, item.fence) for item in group.items))
            renewal = update(schema.items).where(held).values(due_at=self._lease_time() + seconds)
            kept = connection.execute(renewal.returning(_items.id)).scalars().all()
        if not kept:
            raise LeaseLost(
                f"no lease of group {group.item_group!r} in run {group.run_id!r} is left; drop its results"
            )
        return list(kept)

    def release(self, group: LeasedGroup) -> None:
        """Return the items that are still leased: a worker that stops cleanly costs no attempt."""
        with self._database.writing() as connection:
            run = rows.locked_counters(connection, group.run_id)
            held = or_(*(_held(item.id, item.fence) for item in group.items))
            given_back = {"state": "pending", "worker": None, "due_at": 0.0, "attempts": _items.attempts - 1}
            if connection.execute(update(schema.items).where(held).values(given_back)).rowcount:
                _set(connection, run, {"idle_until": None})

    def _may_have_work(self) -> bool:
        with self._database.reading() as connection:
            return work.may_have_work(connection, self._lease_time())

    def _lease_of_next(self, worker: str, seconds: float) -> LeasedGroup | _Again | None:
        """Look at one run; `AGAIN` if it had nothing ready, or ended before its row was free."""
        # One transaction per run: on PostgreSQL a worker that held one run's row and waited for another's
        # could wait for a worker that waits for the first.
        with self._database.writing() as connection:
            work.awaken(connection, self._lease_time())
            run = work.locked_run_to_serve(connection)
            if run is not None:
                return self._lease_of(connection, run, worker, seconds) or AGAIN
            held = work.run_to_serve(connection)
        if held is None:
            return None
        # Every run to serve is held, such as the only one: this worker waits for it like any other writer.
        with self._database.writing() as connection:
            return self._lease_of(connection, rows.locked_run(connection, held), worker, seconds) or AGAIN

    def _lease_of(
        self, connection: Connection, run: RowMapping, worker: str, seconds: float
    ) -> LeasedGroup | None:
        if run["state"] not in OPEN_STATES:
            return None
        now = self._lease_time()
        found = work.earliest_item(connection, run)
        if found is None or found["due_at"] > now:
            _set(connection, run, {"idle_until": _waiting_until(found, now)})
            return None
        if found["attempts"] >= MAX_ATTEMPTS:
            self._fail_exhausted(connection, run, found["item_group"], now)
            return None
        leased = self._lease(connection, run, found, worker, now, until=now + seconds)
        self._mark_served(connection, run, now)
        return LeasedGroup(
            run_id=run["id"],
            kind=run["kind"],
            config=run["config"],
            item_group=found["item_group"],
            items=leased,
            functions=run["functions"] or {},
        )

    def _lease(
        self,
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

    def _mark_served(self, connection: Connection, run: RowMapping, now: float) -> None:
        values: dict[str, Any] = {"served_at": now, "state": "in_progress"}
        if run["state"] == "queued":
            values["started_at"] = run["started_at"] or max(self._clock(), run["created_at"])
            record(connection, run["id"], "in_progress", rows.counts(run).model_dump(), "started")
        # Found now rather than by the next worker, whose look would cost a transaction.
        following = work.earliest_item(connection, run)
        idle = following is None or following["due_at"] > now
        _set(connection, run, {**values, "idle_until": _waiting_until(following, now) if idle else None})

    def _fail_exhausted(self, connection: Connection, run: RowMapping, item_group: str, now: float) -> None:
        # Their workers died without recording them, and no other worker would.
        spent = and_(
            _items.run_id == run["id"], _items.item_group == item_group, _items.attempts >= MAX_ATTEMPTS,
            _ready(now),
        )  # fmt: skip
        detail = f"{MAX_ATTEMPTS} workers took this item and none came back"
        values = {"state": "failed", "worker": None, "code": LeaseLost.code, "detail": detail}
        ids = connection.execute(update(schema.items).where(spent).values(values).returning(_items.id)).all()
        move(connection, run, {"pending": -len(ids), "failed": len(ids)}, now=self._clock(), message=detail)


def _ready(now: float) -> ColumnElement[bool]:
    return and_(work.OPEN, _items.due_at <= now)


def _waiting_until(item: RowMapping | None, now: float) -> float:
    # A run that goes on has open items; if its counters were wrong, a look a minute would do no harm.
    return float(now + UNEXPECTED_SECONDS if item is None else item["due_at"])


def _set(connection: Connection, run: RowMapping, values: Mapping[str, Any]) -> None:
    connection.execute(update(schema.runs).where(schema.runs.c.id == run["id"]).values(dict(values)))


def _held(item_id: str, fence: int) -> ColumnElement[bool]:
    # The fence decides, not the worker's name: a process may restart under the same name.
    return and_(_items.id == item_id, _items.fence == fence, _items.state == "leased")
