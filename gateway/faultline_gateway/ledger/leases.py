"""Leases: which worker holds which items, until when, and their outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, literal_column, or_, select, update

from faultline_core.contract.runs import Provenance
from faultline_core.errors import LeaseLost
from faultline_core.types import Cost, ItemState
from faultline_gateway.ledger import rows, schema
from faultline_gateway.ledger.database import LedgerPart
from faultline_gateway.ledger.transitions import OPEN_STATES, move, record
from faultline_gateway.runs.items import MAX_ATTEMPTS, LeasedGroup, LeasedItem

RETRY_SECONDS = 2.0
"""A retryable failure waits about this long, doubled by attempt, before the next try."""

_runs = schema.runs.c
_items = schema.items.c
# Literals, not parameters: SQLite uses a partial index only if it sees the index's own condition.
_OPEN: tuple[ColumnElement[str], ...] = (literal_column("'pending'"), literal_column("'leased'"))


@dataclass(frozen=True, kw_only=True)
class Done:
    """The item has its planned result."""

    result: Provenance


@dataclass(frozen=True, kw_only=True)
class Filtered:
    """The item was dropped by the filter ``reason``; ``result`` is its best variant if any."""

    reason: str
    detail: str = ""
    result: Provenance | None = None


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The item met the error ``code``; a retryable one is tried up to three times."""

    code: str
    detail: str
    retryable: bool = False


Outcome = Done | Filtered | Failed


class Leases(LedgerPart):
    """The part of the ledger that workers call."""

    def lease_group(self, worker: str, *, seconds: float, run_id: str | None = None) -> LeasedGroup | None:
        """Lease all ready items of one group of one run; the run that was served longest ago comes first.

        An item's last attempt is leased alone: if it kills its worker, it takes no other item with it.
        """
        return self._lease_first(
            lambda connection: self._candidate(connection, run_id),
            lambda connection, found: self._lease_found(connection, found, worker, seconds),
        )

    def renew(self, group: LeasedGroup, seconds: float) -> list[str]:
        """Renew the leases that are still ours and return their item ids.

        Raises:
            LeaseLost: no lease is left: all items were recorded, cancelled or leased to others.
        """
        with self._database.writing() as connection:
            # Locks the run before its items, like every writer: otherwise two could wait for each other.
            rows.locked_run(connection, group.run_id)
            held = or_(*(_held(item.id, item.fence) for item in group.items))
            renewal = update(schema.items).where(held).values(due_at=self._clock() + seconds)
            kept = connection.execute(renewal.returning(_items.id)).scalars().all()
        if not kept:
            raise LeaseLost(
                f"no lease of group {group.item_group!r} in run {group.run_id!r} is left; drop its results"
            )
        return list(kept)

    def finish(self, item_id: str, fence: int, outcome: Outcome) -> None:
        """Record the one outcome of a leased item; the run ends with its last item.

        Raises:
            LeaseLost: the item was leased again, cancelled or recorded since.
        """
        with self._database.writing() as connection:
            run = rows.locked_run(connection, item_id.rpartition(".")[0])
            item = rows.first(connection, select(schema.items).where(_held(item_id, fence)))
            if item is None:
                raise LeaseLost(
                    f"lease {fence} of item {item_id!r} has expired or passed to another worker; "
                    "drop its result"
                )
            state, values = self._conclusion(item, outcome)
            values = {"reason": None, "code": None, "detail": None, "state": state, "worker": None, **values}
            connection.execute(update(schema.items).where(_held(item_id, fence)).values(values))
            changes = {} if state == "pending" else {"pending": -1, state: 1}
            message, cost = _message(item, state, values), _cost(outcome)
            move(connection, run, changes, now=self._clock(), message=message, cost=cost)

    def release(self, group: LeasedGroup) -> None:
        """Return the items that are still leased: a worker that stops cleanly costs no attempt."""
        with self._database.writing() as connection:
            rows.locked_run(connection, group.run_id)
            held = or_(*(_held(item.id, item.fence) for item in group.items))
            given_back = {"state": "pending", "worker": None, "due_at": 0.0, "attempts": _items.attempts - 1}
            connection.execute(update(schema.items).where(held).values(given_back))

    def _candidate(self, connection: Connection, run_id: str | None) -> RowMapping | None:
        open_runs = select(_runs.id).where(_runs.state.in_(OPEN_STATES))
        if run_id is not None:
            open_runs = open_runs.where(_runs.id == run_id)
        order = (_runs.served_at, _runs.created_at, _runs.id)
        # Run by run: one ordered join would sort every open item of every run at each look.
        for candidate in connection.execute(open_runs.order_by(*order)).scalars().all():
            query = (
                select(_items.run_id, _items.item_group, _items.id, _items.attempts, _runs.stage)
                .join_from(schema.items, schema.runs)
                .where(_items.run_id == candidate, _items.stage <= _runs.stage, _ready(self._clock()))
                .order_by(_items.ordinal)
            )
            if (found := rows.first(connection, query)) is not None:
                return found
        return None

    def _lease_found(
        self, connection: Connection, found: RowMapping, worker: str, seconds: float
    ) -> LeasedGroup | None:
        run = rows.locked_run(connection, found["run_id"])
        self._fail_exhausted(connection, run, found["item_group"])
        leased = self._lease(connection, found, worker, self._clock() + seconds)
        if not leased:
            return None
        self._mark_served(connection, run["id"])
        return LeasedGroup(
            run_id=run["id"],
            kind=run["kind"],
            config=run["config"],
            item_group=found["item_group"],
            items=leased,
            functions=run["functions"] or {},
        )

    def _lease(
        self, connection: Connection, found: RowMapping, worker: str, until: float
    ) -> Sequence[LeasedItem]:
        if found["attempts"] == MAX_ATTEMPTS - 1:
            wanted = _items.id == found["id"]
        else:
            # Those on their last attempt are left out: they are leased one by one.
            wanted = and_(_items.item_group == found["item_group"], _items.attempts < MAX_ATTEMPTS - 1)
        values = {
            "state": "leased", "worker": worker, "due_at": until,
            "fence": _items.fence + 1, "attempts": _items.attempts + 1,
        }  # fmt: skip
        opened = _items.stage <= found["stage"]
        mine = and_(_items.run_id == found["run_id"], opened, wanted, _ready(self._clock()))
        statement = update(schema.items).where(mine).values(values).returning(*schema.items.c)
        leased = [rows.leased_item(row) for row in connection.execute(statement).mappings()]
        # RETURNING guarantees no order.
        return sorted(leased, key=lambda item: item.ordinal)

    def _mark_served(self, connection: Connection, run_id: str) -> None:
        run = rows.locked_run(connection, run_id)
        values: dict[str, Any] = {"served_at": self._clock(), "state": "in_progress"}
        if run["state"] == "queued":
            values["started_at"] = run["started_at"] or self._clock()
            counts = rows.counts(run).model_dump()
            record(connection, run_id, "in_progress", counts, "started")
        connection.execute(update(schema.runs).where(schema.runs.c.id == run_id).values(values))

    def _fail_exhausted(self, connection: Connection, run: RowMapping, item_group: str) -> None:
        # Their workers died without recording them, and no other worker would.
        spent = and_(
            _items.run_id == run["id"], _items.item_group == item_group, _items.attempts >= MAX_ATTEMPTS,
            _ready(self._clock()),
        )  # fmt: skip
        detail = f"{MAX_ATTEMPTS} workers took this item and none came back"
        values = {"state": "failed", "worker": None, "code": LeaseLost.code, "detail": detail}
        ids = connection.execute(update(schema.items).where(spent).values(values).returning(_items.id)).all()
        if ids:
            changes = {"pending": -len(ids), "failed": len(ids)}
            move(connection, run, changes, now=self._clock(), message=detail)

    def _conclusion(self, item: RowMapping, outcome: Outcome) -> tuple[ItemState, dict[str, Any]]:
        if isinstance(outcome, Done):
            return "done", {"result": outcome.result.model_dump(mode="json")}
        if isinstance(outcome, Filtered):
            result = None if outcome.result is None else outcome.result.model_dump(mode="json")
            return "filtered", {"reason": outcome.reason, "detail": outcome.detail, "result": result}
        values: dict[str, Any] = {"code": outcome.code, "detail": outcome.detail}
        if not outcome.retryable or item["attempts"] >= MAX_ATTEMPTS:
            return "failed", values
        return "pending", values | {"due_at": self._clock() + _pause(item)}


def _cost(outcome: Outcome) -> Cost | None:
    return None if isinstance(outcome, Failed) or outcome.result is None else outcome.result.cost


def _ready(now: float) -> ColumnElement[bool]:
    return and_(_items.state.in_(_OPEN), _items.due_at <= now)


def _pause(item: RowMapping) -> float:
    # Items that failed together are spread by their ordinal, so that they do not return together.
    spread = 0.5 + item["ordinal"] % 8 / 14
    return float(RETRY_SECONDS * 2 ** (item["attempts"] - 1) * spread)


def _held(item_id: str, fence: int) -> ColumnElement[bool]:
    # The fence decides, not the worker's name: a process may restart under the same name.
    return and_(_items.id == item_id, _items.fence == fence, _items.state == "leased")


def _message(item: RowMapping, state: ItemState, values: dict[str, Any]) -> str:
    what = item["kind"] if item["edit_type"] is None else f"{item['edit_type']} edit"
    why = values.get("reason") or values.get("code") or ""
    return f"{what} of {item['label']}: {state}{f' ({why})' if why else ''}"
