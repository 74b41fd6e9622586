"""Runs: created with all their items at once, listed, watched, cancelled, resumed."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, Update, and_, insert, select, update
from sqlalchemy.exc import IntegrityError

from faultline_core.contract.runs import AnyItem, Item, PageOfItems, Run, RunEvent, RunList
from faultline_core.errors import IdempotencyConflict, NotFound, RunNotCancellable, RunNotResumable
from faultline_core.types import FINAL_ITEM_STATES, FINAL_RUN_STATES, Cost, RunKind
from faultline_gateway.ledger import cursors, rows, schema
from faultline_gateway.ledger.part import LedgerPart
from faultline_gateway.ledger.transitions import ACTIVE_STATES, end_state, move, record
from faultline_gateway.work_items import PlannedItem

_runs = schema.runs.c
_items = schema.items.c
_events = schema.events.c


class Runs(LedgerPart):
    """The part of the ledger that the gateway's run routes call."""

    def create_run(
        self,
        *,
        kind: RunKind,
        dataset: str,
        config: dict[str, Any],
        items: Sequence[PlannedItem],
        fingerprint: str,
        idempotency_key: str | None = None,
    ) -> str:
        """Make the run and all its items durable together and return the run's id.

        A key that made a run before returns that run, for ever.

        Raises:
            IdempotencyConflict: the key made a run with another ``fingerprint``.
        """
        # 128 random bits: one run's id tells nothing about another's.
        run_id = secrets.token_hex(16)
        row = self._new_run(run_id, len(items)) | {
            "kind": kind, "dataset": dataset, "config": config, "fingerprint": fingerprint,
            "idempotency_key": idempotency_key,
        }  # fmt: skip
        try:
            with self._database.writing() as connection:
                connection.execute(insert(schema.runs).values(row))
                if items:
                    connection.execute(insert(schema.items), [_item_row(run_id, item) for item in items])
                counts = {name: row[name] for name in ("total", *rows.COUNTED)}
                record(connection, run_id, row["state"], counts, "created")
        except IntegrityError:
            # Two calls with one key raced; the unique column let one of them in, whose run is the answer.
            known = None if idempotency_key is None else self.run_for_key(idempotency_key, fingerprint)
            if known is None:
                raise
            return known
        return run_id

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
            raise IdempotencyConflict(f"the key {idempotency_key!r} was used with another body")
        return str(row["id"])

    def run(self, run_id: str, kind: RunKind | None = None) -> Run:
        """Return the run as it stands.

        Raises:
            NotFound: there is no such run, or it is not of the ``kind`` that is asked for.
        """
        with self._database.reading() as connection:
            found = rows.run(_run_row(connection, run_id))
        if kind is not None and found.kind != kind:
            raise NotFound(f"run {run_id!r} is a {found.kind}, not a {kind}")
        return found

    def run_list(self, *, kind: RunKind | None = None, after: str | None = None, limit: int = 50) -> RunList:
        """Return a page of runs, newest first, of all kinds or of one."""
        # One row more than asked for tells whether there is a next page.
        query = select(schema.runs).order_by(_runs.created_at.desc(), _runs.id.desc()).limit(limit + 1)
        if kind is not None:
            query = query.where(_runs.kind == kind)
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

    def item_page(
        self, run_id: str, shape: type[AnyItem], *, after: str | None = None, limit: int = 100
    ) -> PageOfItems[AnyItem]:
        """Return a page of items in ordinal order; pages never repeat or skip while the run goes on.

        ``shape`` is the item of runs of this kind.
        """
        since = -1 if after is None else cursors.read_ordinal(after, run_id)
        # A keyset, never an offset: what happens to earlier items cannot shift later pages.
        query = select(schema.items).where(_items.run_id == run_id, _items.ordinal > since)
        with self._database.reading() as connection:
            _run_row(connection, run_id)
            found = connection.execute(query.order_by(_items.ordinal).limit(limit + 1)).mappings().all()
        page = [rows.item(row, shape) for row in found[:limit]]
        more = cursors.write(run_id, page[-1].ordinal) if len(found) > limit else None
        return PageOfItems[shape](items=page, after=more)  # type: ignore[valid-type]  # known at run time only

    def items(self, run_id: str, *, from_ordinal: int = 0, chunk: int = 500) -> Iterator[Item]:
        """Yield every item of a stress test in ordinal order, read in chunks."""
        yield from self.items_of(run_id, Item, from_ordinal=from_ordinal, chunk=chunk)

    def items_of(
        self, run_id: str, shape: type[AnyItem], *, from_ordinal: int = 0, chunk: int = 500
    ) -> Iterator[AnyItem]:
        """Yield every item of a run in ordinal order, as runs of its kind have them."""
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
        return [_event(row) for row in found]

    def last_event(self, run_id: str) -> RunEvent:
        """Return the newest event of a run.

        Raises:
            NotFound: there is no such run.
        """
        query = select(schema.events).where(_events.run_id == run_id).order_by(_events.id.desc())
        with self._database.reading() as connection:
            _run_row(connection, run_id)
            row = rows.first(connection, query)
        if row is None:
            raise NotFound(f"the run {run_id!r} has left no event")
        return _event(row)

    def run_cancelled(self, run_id: str) -> bool:
        """Tell whether nobody wants the run's items any more."""
        return self.run(run_id).state in ("cancelling", "cancelled")

    def cancel(self, run_id: str) -> Run:
        """End the run now: finished items are kept, all others are cancelled, their leases are void.

        Raises:
            RunNotCancellable: it has ended already.
        """
        with self._database.writing() as connection:
            run = rows.locked_run(connection, run_id)
            if run["state"] in FINAL_RUN_STATES:
                raise RunNotCancellable(f"the run {run_id!r} is already {run['state']}")
            ended = connection.execute(_reopened(run_id, ("pending", "leased"), "cancelled")).rowcount
            changes = {"pending": -ended, "cancelled": ended}
            move(connection, run, changes, now=self._clock(), message="cancelled")
        return self.run(run_id)

    def resume(self, run_id: str) -> Run:
        """Put failed and cancelled items of an ended run back to pending, with fresh attempts.

        Raises:
            RunNotResumable: it has not ended, or every item ended well.
        """
        with self._database.writing() as connection:
            run = rows.locked_run(connection, run_id)
            again = run["failed"] + run["cancelled"]
            if run["state"] not in FINAL_RUN_STATES or not again:
                raise RunNotResumable(f"the run {run_id!r} is {run['state']} and has nothing to resume")
            connection.execute(_reopened(run_id, ("failed", "cancelled"), "pending"))
            # As if it had never been served: whoever resumes a run waits for it now.
            awakened = {"state": "queued", "ended_at": None, "problem": None, "served_at": 0.0}
            connection.execute(update(schema.runs).where(_runs.id == run_id).values(awakened))
            changes = {"pending": again, "failed": -run["failed"], "cancelled": -run["cancelled"]}
            # Read again: what follows writes the state it finds, and the run has just been awakened.
            run = rows.locked_run(connection, run_id)
            move(connection, run, changes, now=self._clock(), message="resumed")
        return self.run(run_id)

    def active_runs(self) -> int:
        """Return how many runs have not ended."""
        with self._database.reading() as connection:
            return len(connection.execute(select(_runs.id).where(_runs.state.in_(ACTIVE_STATES))).all())

    def total_cost(self) -> Cost:
        """Return what the recorded items of all runs took."""
        with self._database.reading() as connection:
            noted = connection.execute(select(_runs.cost).where(_runs.cost.is_not(None))).scalars().all()
        return sum((Cost.model_validate(cost) for cost in noted), Cost())

    def _new_run(self, run_id: str, total: int) -> dict[str, Any]:
        now = self._clock()
        zeros = dict.fromkeys(rows.COUNTED, 0)
        state, ended_at = ("queued", None) if total else (end_state(zeros), now)
        times = {"created_at": now, "started_at": None, "ended_at": ended_at, "served_at": 0.0}
        return {"id": run_id, "state": state, "total": total, **zeros, "pending": total, **times}


def _run_row(connection: Connection, run_id: str) -> RowMapping:
    row = rows.first(connection, select(schema.runs).where(_runs.id == run_id))
    if row is None:
        raise NotFound(f"there is no run {run_id!r}")
    return row


def _item_row(run_id: str, item: PlannedItem) -> dict[str, Any]:
    return {
        **vars(item), "id": f"{run_id}.{item.ordinal}", "run_id": run_id, "state": "pending",
        "attempts": 0, "fence": 0, "due_at": 0.0,
    }  # fmt: skip


def _reopened(run_id: str, states: tuple[str, ...], state: str) -> Update:
    """Move items between states; none is leased then, so whoever still works on one cannot record it."""
    fresh = {"attempts": 0, "due_at": 0.0} if state not in FINAL_ITEM_STATES else {}
    values = {"state": state, "worker": None, **fresh}
    return update(schema.items).where(and_(_items.run_id == run_id, _items.state.in_(states))).values(values)


def _event(row: RowMapping) -> RunEvent:
    return RunEvent(
        id=row["id"], run_id=row["run_id"], state=row["state"], request_counts=row["counts"],
        message=row["message"],
    )  # fmt: skip
