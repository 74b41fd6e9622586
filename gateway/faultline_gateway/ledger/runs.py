"""Runs: created with the items of their first stage, listed, watched, cancelled, resumed."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, Update, and_, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from faultline_core.contract.runs import AnyItem, Item, PageOfItems, Run, RunEvent, RunList
from faultline_core.errors import IdempotencyConflict, NotFound, RunNotResumable
from faultline_core.types import (
    FINAL_ITEM_STATES,
    FINAL_RUN_STATES,
    Cost,
    ItemKind,
    ItemState,
    RunKind,
    RunState,
)
from faultline_gateway.ledger import cursors, rows, schema, tallies
from faultline_gateway.ledger.database import LedgerPart
from faultline_gateway.ledger.lease_time import LeaseTime
from faultline_gateway.ledger.new_items import insert_items, new_items
from faultline_gateway.ledger.transitions import end_state, move, record
from faultline_gateway.runs.items import PlannedItem

CREATOR_SECONDS = 30.0
"""How long a run waits for the rest of its items from who created it, before a worker plans them."""

LOOKED_AT = 10_000
"""Items that one look at some kind, state or class alone reads, in about 20 ms."""

_runs = schema.runs.c
_items = schema.items.c
_events = schema.events.c
_RUN = select(schema.runs).where(_runs.id == bindparam("run"))
_NEW_RUN = insert(schema.runs)


class Runs(LedgerPart):
    """The part of the ledger that the gateway's run routes call."""

    _lease_time: LeaseTime

    def create_run(
        self,
        *,
        kind: RunKind,
        dataset: str,
        config: dict[str, Any],
        items: Sequence[PlannedItem],
        fingerprint: str,
        idempotency_key: str | None = None,
        staged: bool = False,
        parent: str | None = None,
        functions: Mapping[str, str] | None = None,
        plan_sources: Mapping[str, int] | None = None,
    ) -> str:
        """Make the run and these items durable together and return the run's id.

        Args:
            kind: the method.
            dataset: the name of the dataset it is about.
            config: the resolved configuration, as JSON.
            items: the items of its first stage, their ordinals counted from 0.
            fingerprint: the digest of the request.
            idempotency_key: the caller's key, if any; one that made a run before returns that run.
            staged: whether the method plans later stages from results; the run ends with its items if not.
            parent: the ended run that this one continues, if any.
            functions: the addresses of classifiers that the caller's program serves, by name; default: those
                of the parent.
            plan_sources: `Plan.sources` where more items follow: the run is ``validating``, and who creates
                it holds the lease of fence 1 for `CREATOR_SECONDS` to store them. None if these are all.

        Raises:
            NotFound: the run ``parent`` does not exist.
            IdempotencyConflict: the key made a run with another ``fingerprint``.
        """
        # 128 random bits: the id of one run reveals nothing about another's.
        run_id = secrets.token_hex(16)
        row = self._new_run(run_id, len(items), staged) | {
            "kind": kind, "dataset": dataset, "config": config, "fingerprint": fingerprint,
            "idempotency_key": idempotency_key, "parent": parent,
        }  # fmt: skip
        if plan_sources is not None:
            row |= self._more_to_plan(plan_sources)
        # Made before the transaction: the lock is held for the writing alone.
        planned = new_items(run_id, items)
        try:
            with self._database.writing() as connection:
                continued = {} if parent is None else _run_row(connection, parent)
                row["functions"] = dict(functions or {}) or continued.get("functions")
                connection.execute(_NEW_RUN, row)
                insert_items(connection, planned)
                counts = {name: row[name] for name in ("total", *rows.COUNTED)}
                record(connection, run_id, row["state"], counts, "created")
                tallies.add(connection, run_id, active=int(row["state"] not in FINAL_RUN_STATES))
        except IntegrityError:
            # Two calls with one key raced; the unique column accepted one of them, whose run is the answer.
            known = None if idempotency_key is None else self.run_for_key(idempotency_key, fingerprint)
            if known is None:
                raise
            run_id = known
        return run_id

    def _more_to_plan(self, plan_sources: Mapping[str, int]) -> dict[str, Any]:
        return {
            "state": "validating",
            "plan_sources": dict(plan_sources),
            "planning_fence": 1,
            "planning_due_at": self._lease_time() + CREATOR_SECONDS,
        }

    def functions(self, run_id: str) -> dict[str, str]:
        """Return the addresses of the classifiers that the caller's program serves, by name.

        Raises:
            NotFound: the run does not exist.
        """
        with self._database.reading() as connection:
            return dict(_run_row(connection, run_id)["functions"] or {})

    def run_for_key(self, idempotency_key: str, fingerprint: str) -> str | None:
        """Return the run that this key made, or None.

        Raises:
            IdempotencyConflict: it was made with another ``fingerprint``.
        """
        with self._database.reading() as connection:
            query = select(_runs.id, _runs.fingerprint).where(_runs.idempotency_key == idempotency_key)
            row = rows.first(connection, query)
        if row is None:
            return None
        if row["fingerprint"] != fingerprint:
            raise IdempotencyConflict(
                f"the idempotency key {idempotency_key!r} belongs to another body; "
                "send this one under a new key"
            )
        return str(row["id"])

    def run(self, run_id: str, kind: RunKind | None = None) -> Run:
        """Return the current state of the run.

        Raises:
            NotFound: the run does not exist, or it is not of the requested ``kind``.
        """
        with self._database.reading() as connection:
            found = rows.run(_run_row(connection, run_id))
        if kind is not None and found.kind != kind:
            raise NotFound(f"run {run_id!r} is a {found.kind}, not a {kind}; ask for it under its own kind")
        return found

    def run_list(
        self,
        *,
        kind: RunKind | None = None,
        state: RunState | None = None,
        dataset: str | None = None,
        parent: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> RunList:
        """Return a page of runs, newest first: all, or those of a kind, state, dataset or parent."""
        # One row more than requested shows whether there is a next page.
        query = select(schema.runs).order_by(_runs.created_at.desc(), _runs.id.desc()).limit(limit + 1)
        wanted = ((_runs.kind, kind), (_runs.state, state), (_runs.dataset, dataset), (_runs.parent, parent))
        for column, value in wanted:
            if value is not None:
                query = query.where(column == value)
        if after is not None:
            created_at, run_id = cursors.read_pair(after)
            older = (_runs.created_at == created_at) & (_runs.id < run_id)
            query = query.where((_runs.created_at < created_at) | older)
        with self._database.reading() as connection:
            found = connection.execute(query).mappings().all()
        page = found[:limit]
        more = len(found) > limit
        cursor = cursors.write(page[-1]["created_at"], page[-1]["id"]) if more else None
        return RunList(runs=[rows.run(row) for row in page], after=cursor)

    def children(self, run_id: str) -> list[Run]:
        """Return the runs that continue a run, oldest first; none if it does not exist."""
        query = select(schema.runs).where(_runs.parent == run_id).order_by(_runs.created_at, _runs.id)
        with self._database.reading() as connection:
            return [rows.run(row) for row in connection.execute(query).mappings()]

    def item_page(
        self,
        run_id: str,
        shape: type[AnyItem],
        *,
        kind: ItemKind | None = None,
        state: ItemState | None = None,
        label: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> PageOfItems[AnyItem]:
        """Return a page of items in ordinal order; pages never repeat or skip while the run goes on.

        ``shape`` is the item of runs of this kind; items may be of a kind, state or class alone. Such a page
        may have fewer items than ``limit`` or none before the last: it looks at `LOOKED_AT` items at most.
        """
        since = -1 if after is None else cursors.read_ordinal(after, run_id)
        # A keyset, never an offset: changes of earlier items cannot shift later pages.
        query = select(schema.items).where(_items.run_id == run_id, _items.ordinal > since)
        given = ((_items.kind, kind), (_items.state, state), (_items.label, label))
        wanted = [column == value for column, value in given if value is not None]
        last = since + LOOKED_AT
        if wanted:
            query = query.where(*wanted, _items.ordinal <= last)
        with self._database.reading() as connection:
            run = _extent(connection, run_id)
            query = query.where(_items.stage <= run["stage"]).order_by(_items.ordinal).limit(limit + 1)
            found = connection.execute(query).mappings().all()
        page = [rows.item(row, shape) for row in found[:limit]]
        more: str | None = None
        if len(found) > limit:
            more = cursors.write(run_id, page[-1].ordinal)
        elif wanted and last < run["total"] - 1:
            more = cursors.write(run_id, last)
        return PageOfItems[shape](items=page, after=more)  # type: ignore[valid-type]  # known at run time only

    def item(self, run_id: str, item_id: str, shape: type[AnyItem]) -> AnyItem:
        """Return one item of a run, in the shape of the run's kind.

        Raises:
            NotFound: the run does not exist or has no such item.
        """
        query = select(schema.items).where(_items.run_id == run_id, _items.id == item_id)
        with self._database.reading() as connection:
            opened = _items.stage <= _extent(connection, run_id)["stage"]
            row = rows.first(connection, query.where(opened))
        if row is None:
            raise NotFound(f"run {run_id!r} has no item {item_id!r}; list its items to find it")
        return rows.item(row, shape)

    def newest_items(self, run_id: str, shape: type[AnyItem], *, kind: ItemKind, limit: int) -> list[AnyItem]:
        """Return finished items of a kind, those planned last first, of `LOOKED_AT` that ended last."""
        query = select(schema.items).where(
            _items.run_id == run_id, _items.kind == kind, _items.state == "done"
        )
        with self._database.reading() as connection:
            run = _extent(connection, run_id)
            # Items are leased in their order: beyond those that have ended, nearly all are still open.
            ended = run["total"] - run["pending"]
            near = _items.ordinal.between(ended - LOOKED_AT // 2, ended + LOOKED_AT // 2)
            opened = _items.stage <= run["stage"]
            query = query.where(opened, near).order_by(_items.ordinal.desc()).limit(limit)
            found = connection.execute(query).mappings().all()
        return [rows.item(row, shape) for row in found]

    def items(self, run_id: str, *, from_ordinal: int = 0, chunk: int = 500) -> Iterator[Item]:
        """Yield every item of a stress test in ordinal order, read in chunks."""
        yield from self.items_of(run_id, Item, from_ordinal=from_ordinal, chunk=chunk)

    def items_of(
        self, run_id: str, shape: type[AnyItem], *, from_ordinal: int = 0, chunk: int = 500
    ) -> Iterator[AnyItem]:
        """Yield every item of a run in ordinal order, in the shape of the run's kind."""
        after = cursors.write(run_id, from_ordinal - 1)
        while True:
            page = self.item_page(run_id, shape, after=after, limit=chunk)
            yield from page.items
            if page.after is None:
                return
            after = page.after

    def events(self, run_id: str, *, after: int, limit: int = 500) -> list[RunEvent]:
        """Return the events of a run with larger ids than ``after``, oldest first."""
        query = select(schema.events).where(_events.run_id == run_id, _events.id > after)
        with self._database.reading() as connection:
            found = connection.execute(query.order_by(_events.id).limit(limit)).mappings().all()
        return [rows.event(row) for row in found]

    def last_event(self, run_id: str) -> RunEvent:
        """Return the newest event of a run.

        Raises:
            NotFound: the run does not exist.
        """
        query = select(schema.events).where(_events.run_id == run_id).order_by(_events.id.desc())
        with self._database.reading() as connection:
            _run_row(connection, run_id)
            row = rows.first(connection, query)
        if row is None:
            raise NotFound(f"run {run_id!r} has no event yet; ask for its state")
        return rows.event(row)

    def rename(self, run_id: str, name: str | None) -> Run:
        """Give a run a name, or take it away; raises `NotFound`."""
        with self._database.writing() as connection:
            rows.locked_run(connection, run_id)
            connection.execute(update(schema.runs).where(_runs.id == run_id).values(name=name))
        return self.run(run_id)

    def resume(self, run_id: str) -> Run:
        """Put failed and cancelled items of an ended run back to pending, with fresh attempts.

        A run whose next stage could not be planned, or that was cancelled during planning, is planned again;
        of one whose first stage is not stored whole, the rest is planned.

        Raises:
            RunNotResumable: it has not ended, or every item ended well.
        """
        with self._database.writing() as connection:
            run = rows.locked_run(connection, run_id)
            again = run["failed"] + run["cancelled"]
            # Without such items, the run failed or was cancelled between two stages.
            unfinished = again or run["state"] in ("failed", "cancelled")
            if run["state"] not in FINAL_RUN_STATES or not unfinished:
                raise RunNotResumable(
                    f"run {run_id!r} is {run['state']}; "
                    "only an ended run with failed or cancelled items or stages can be resumed"
                )
            connection.execute(_reopened(run, ("failed", "cancelled"), "pending"))
            # As if it had never been served: the user who resumes a run waits for it now.
            state = "queued" if run["plan_sources"] is None else "validating"
            awakened = {
                "state": state, "ended_at": None, "problem": None, "served_at": 0.0, "idle_until": None,
                "planning_attempts": 0, "planning_due_at": 0.0,
            }  # fmt: skip
            connection.execute(update(schema.runs).where(_runs.id == run_id).values(awakened))
            tallies.add(connection, run_id, active=1)
            changes = {"pending": again, "failed": -run["failed"], "cancelled": -run["cancelled"]}
            # Read again: the following code writes the state that it reads, which has just changed.
            run = rows.locked_run(connection, run_id)
            move(connection, run, changes, now=self._clock(), message="resumed")
        return self.run(run_id)

    def active_runs(self) -> int:
        """Return how many runs have not ended, as the ledger keeps it."""
        with self._database.reading() as connection:
            return tallies.active_runs(connection)

    def total_cost(self) -> Cost:
        """Return the cost of the recorded items of all runs, deleted ones too, as the ledger keeps it."""
        with self._database.reading() as connection:
            return tallies.total_cost(connection)

    def _new_run(self, run_id: str, total: int, staged: bool) -> dict[str, Any]:
        now = self._clock()
        zeros = dict.fromkeys(rows.COUNTED, 0)
        without_items = ("finalizing", None) if staged else (end_state(zeros), now)
        state, ended_at = ("queued", None) if total else without_items
        times = {"created_at": now, "started_at": None, "ended_at": ended_at, "served_at": 0.0}
        counters = {"total": total, **zeros, "pending": total}
        return {"id": run_id, "state": state, "staged": staged, **counters, **times}


def _extent(connection: Connection, run_id: str) -> RowMapping:
    """Return a run's stage and counts: a page must not read its configuration, which may have a megabyte."""
    query = select(_runs.stage, _runs.total, _runs.pending).where(_runs.id == run_id)
    row = rows.first(connection, query)
    if row is None:
        raise rows.absent(connection, run_id)
    return row


def _run_row(connection: Connection, run_id: str) -> RowMapping:
    row = connection.execute(_RUN, {"run": run_id}).mappings().first()
    if row is None:
        raise rows.absent(connection, run_id)
    return row


def _reopened(run: RowMapping, states: tuple[str, ...], state: str) -> Update:
    """Move items between states; their leases end, so a worker that still holds one cannot record it."""
    fresh = {"attempts": 0, "due_at": 0.0} if state not in FINAL_ITEM_STATES else {}
    values = {"state": state, "worker": None, **fresh}
    mine = and_(_items.run_id == run["id"], _items.stage <= run["stage"], _items.state.in_(states))
    return update(schema.items).where(mine).values(values)
