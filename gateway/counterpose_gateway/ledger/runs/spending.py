"""What runs ask servers of others for: reserved before each call, settled after it.

A call is reserved with the most that it may cost, in a transaction that locks its run, and refused where the
run's limits leave no room for it. Whoever dies before it settles leaves what was reserved as spent. That is
below what a server was asked for only where the service had asked it again after an answer broke off.

The id of a call begins with the mark of its lease: when that has ended, nobody waits for the call's room.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, select, update

from counterpose_core.contract.spending import Spending, Spent, summed, usd_of
from counterpose_core.errors import BudgetSpent
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.runs.limits import limits_of, write_limits
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.spending import Allotment, CallsOfAccount, Lease, RoomHeldError

_rows = schema.spending.c
_items = schema.items.c
_HOLDERS = (
    select(_items.worker, _items.item_group)
    .where(
        _items.run_id == bindparam("run"),
        rows.OPEN,
        _items.state == "leased",
        _items.due_at > bindparam("now"),
    )
    .distinct()
)
_OF_RUN = select(schema.spending).where(_rows.run_id == bindparam("run"))


class SpendingRows:
    """The spending of runs."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def reserve(
        self, run_id: str, call: str, service: str, most: Spent, *, waits: bool = False
    ) -> BudgetSpent | None:
        """Take ``most`` for spent by a call; or say that the budget has no room, and let no more be leased.

        Args:
            run_id: the run.
            call: an id of the call, of at most 32 characters (`Lease.new_call`).
            service: the service that asks.
            most: the most that the call may cost.
            waits: whether the caller tries again where only calls under way leave no room.

        Raises:
            NotFound: the run does not exist.
            RoomHeldError: it ``waits`` for calls under way.
        """
        with self._session.writing() as connection:
            rows.locked_counters(connection, run_id)
            if (limits := limits_of(connection, run_id)) is not None:
                settled, under_way = _account(connection, run_id)
                spent = _added(settled, under_way)
                if (refusal := limits.refusal(spent, service, most)) is not None:
                    if waits and not limits.stopped:
                        kept = _added(settled, self._lost(connection, run_id))
                        if limits.refusal(kept, service, most) is None:
                            raise RoomHeldError
                    write_limits(connection, run_id, limits.model_copy(update={"stopped": True}))
                    return refusal
            _add(connection, run_id, call, service, most)
        return None

    def _lost(self, connection: Connection, run_id: str) -> dict[str, Spent]:
        """What is reserved for calls whose leases have ended, by service."""
        now, lost = self._session.lease_time(), defaultdict[str, Spent](Spent)
        holders = connection.execute(_HOLDERS, {"run": run_id, "now": now})
        marks = {Lease(worker, group).mark for worker, group in holders}
        for row in connection.execute(_OF_RUN, {"run": run_id}).mappings():
            mark, separator, _ = row["call"].partition("-")
            if separator and mark not in marks:
                lost[row["service"]] += Spent.counted(dict(row))
        return lost

    def settle(self, run_id: str, call: str, spent: Spent) -> None:
        """Put what a call did cost in the place of what was reserved, unless the run was deleted."""
        own = and_(_rows.run_id == run_id, _rows.call == call)
        with self._session.writing() as connection:
            # Locks the run before its rows, like every writer; one that is deleted has none.
            mine = rows.is_own(connection, schema.runs.c.tenant)
            locked = select(schema.runs.c.id).where(schema.runs.c.id == run_id, mine).with_for_update()
            if connection.execute(locked).first() is None:
                return
            service = connection.execute(delete(schema.spending).where(own).returning(_rows.service)).scalar()
            if service is None or spent == Spent():
                return
            add_calls(connection, run_id, {service: (service, spent)})

    def of(self, run_id: str) -> Spending | None:
        """Return what a run has asked for; None if it has asked no server of others, and has no limit."""
        with self._session.reading() as connection:
            run = rows.run_row(connection, run_id)
            settled, open_calls = _account(connection, run_id)
            spent = _added(settled, open_calls)
            limits = limits_of(connection, run_id)
            if not spent and limits is None:
                return None
            limits = limits or Allotment()
            left = _left(connection, run_id, run["kind"]) if limits.stopped else ""
        return Spending(
            services=spent,
            unanswered=summed(open_calls.values()),
            usd=usd_of(spent, limits.prices) if limits.prices else None,
            unpriced=limits.unpriced,
            unused_prices=limits.unused,
            stopped=f"{limits.says}; {left}" if limits.stopped else None,
        )


def add_calls(connection: Connection, run_id: str, calls: CallsOfAccount) -> None:
    """Add an account to that of a locked run."""
    for call, (service, spent) in calls.items():
        more = {name: _rows[name] + number for name, number in spent}
        summing = update(schema.spending).where(_rows.run_id == run_id, _rows.call == call).values(more)
        if not connection.execute(summing).rowcount:
            _add(connection, run_id, call, service, spent)


def _add(connection: Connection, run_id: str, call: str, service: str, spent: Spent) -> None:
    connection.execute(
        insert(schema.spending).values(run_id=run_id, call=call, service=service, **dict(spent))
    )


def _account(connection: Connection, run_id: str) -> tuple[dict[str, Spent], dict[str, Spent]]:
    """Return what each service has spent for answers, and what calls without an answer may have."""
    settled, unanswered = defaultdict[str, Spent](Spent), defaultdict[str, Spent](Spent)
    for row in connection.execute(_OF_RUN.order_by(_rows.service, _rows.call), {"run": run_id}).mappings():
        one = Spent.counted(dict(row))
        part = settled if row["call"] == row["service"] else unanswered
        part[row["service"]] += one
    return settled, unanswered


def _added(some: Mapping[str, Spent], more: Mapping[str, Spent]) -> dict[str, Spent]:
    names = sorted(some.keys() | more.keys())
    return {name: some.get(name, Spent()) + more.get(name, Spent()) for name in names}


def _left(connection: Connection, run_id: str, kind: str) -> str:
    """Say of how many source images, or else of how many items, something is missing."""
    what = _items.source_image if kind == "stress-test" else _items.id
    of_run = select(func.count(what.distinct())).where(_items.run_id == run_id)
    every = connection.execute(of_run).scalar_one()
    missing = connection.execute(of_run.where(_items.state.not_in(("done", "filtered")))).scalar_one()
    noun = "source images are not tested in full" if kind == "stress-test" else "items are not done"
    return f"{missing:,} of {every:,} {noun}"
