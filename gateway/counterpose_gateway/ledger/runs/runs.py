"""Runs: created with the items of their first stage, listed, watched, cancelled, resumed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from counterpose_core.contract.runs import Run, RunEvent, RunList
from counterpose_core.errors import IdempotencyConflict, NotFound
from counterpose_core.types import (
    FINAL_RUN_STATES,
    Cost,
    RunKind,
    RunState,
)
from counterpose_gateway.ledger.database import cursors
from counterpose_gateway.ledger.database.engine import LedgerPart
from counterpose_gateway.ledger.database.lease_time import LeaseTime
from counterpose_gateway.ledger.runs.new_items import NewItems, insert_items, new_items
from counterpose_gateway.ledger.runs.transitions import end_state, record
from counterpose_gateway.ledger.tables import rows, schema, totals
from counterpose_gateway.ledger.webhooks import outbox
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.records.tenants import DEFAULT_TENANT

CREATOR_SECONDS = 30.0
"""How long a run waits for the rest of its items from who created it, before a worker plans them."""

_runs = schema.runs.c
_items = schema.items.c
_events = schema.events.c
_RUN = select(schema.runs).where(_runs.id == bindparam("run"), rows.OWN, rows.KEPT)
_NEW_RUN = insert(schema.runs).returning(schema.runs)


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
        trace: str | None = None,
    ) -> Run:
        """Make the run and these items durable together and return it.

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
            trace: the ``traceparent`` that the spans of its items belong to, if any.

        Raises:
            NotFound: the run ``parent`` does not exist.
            IdempotencyConflict: the key made a run with another ``fingerprint``.
        """
        # 128 random bits: the id of one run reveals nothing about another's.
        run_id = secrets.token_hex(16)
        row = self._new_run(run_id, len(items), staged) | {
            "kind": kind, "dataset": dataset, "config": config, "fingerprint": fingerprint,
            "parent": parent, "trace": trace, "tenant": self._tenant or DEFAULT_TENANT,
        }  # fmt: skip
        if idempotency_key is not None:
            row["idempotency_key"] = rows.request_key(self._tenant, idempotency_key)
        if plan_sources is not None:
            row |= self._more_to_plan(plan_sources)
        # Made before the transaction: the lock is held for the writing alone.
        planned = new_items(run_id, items)
        try:
            return self._write_run(row, planned, functions)
        except IntegrityError:
            # Two calls with one key raced; the unique column accepted one of them, whose run is the answer.
            known = None if idempotency_key is None else self.run_for_key(idempotency_key, fingerprint)
            if known is None:
                raise
            return self.run(known)

    def _write_run(self, row: dict[str, Any], planned: NewItems, functions: Mapping[str, str] | None) -> Run:
        with self._database.writing() as connection:
            continued = {} if row["parent"] is None else _run_row(connection, row["parent"])
            row["functions"] = dict(functions or {}) or continued.get("functions")
            # As it is stored: its caller needs no transaction more to read it.
            run = rows.run(connection.execute(_NEW_RUN, row).mappings().one())
            insert_items(connection, planned)
            counts = {name: row[name] for name in ("total", *rows.COUNTED)}
            record(connection, run.id, row["state"], counts, "created")
            if row["ended_at"] is not None:
                outbox.tell_end(connection, {"name": None, "problem": None, **row})
            going_on = int(row["state"] not in FINAL_RUN_STATES)
            totals.add(connection, run.id, active=going_on, opened=row["pending"])
        return run

    def _more_to_plan(self, plan_sources: Mapping[str, int]) -> dict[str, Any]:
        return {
            "state": "validating",
            "plan_sources": dict(plan_sources),
            "planning_fence": 1,
            "planning_due_at": self._lease_time() + CREATOR_SECONDS,
        }

    @property
    def _mine(self) -> list[ColumnElement[bool]]:
        """The condition on runs that are shown, if not all are."""
        return [] if self._tenant is None else [_runs.tenant == self._tenant]

    def tenant_of(self, run_id: str) -> str:
        """Return whose a run is; raises `NotFound`."""
        with self._database.reading() as connection:
            return str(_run_row(connection, run_id)["tenant"])

    def functions(self, run_id: str) -> dict[str, str]:
        """Return the addresses of the classifiers that the caller's program serves, by name.

        Raises:
            NotFound: the run does not exist.
        """
        with self._database.reading() as connection:
            return dict(_run_row(connection, run_id)["functions"] or {})

    def has_run_for_key(self, idempotency_key: str) -> bool:
        """Whether this key made a run, of whatever request."""
        key = rows.request_key(self._tenant, idempotency_key)
        with self._database.reading() as connection:
            return rows.first(connection, select(_runs.id).where(_runs.idempotency_key == key)) is not None

    def run_for_key(self, idempotency_key: str, fingerprint: str) -> str | None:
        """Return the run that this key made, or None.

        Raises:
            IdempotencyConflict: it was made with another ``fingerprint``.
        """
        with self._database.reading() as connection:
            mine = _runs.idempotency_key == rows.request_key(self._tenant, idempotency_key)
            query = select(_runs.id, _runs.fingerprint).where(mine)
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
        query = select(schema.runs).where(rows.KEPT, *self._mine)
        query = query.order_by(_runs.created_at.desc(), _runs.id.desc()).limit(limit + 1)
        wanted = ((_runs.kind, kind), (_runs.state, state), (_runs.dataset, dataset), (_runs.parent, parent))
        for column, value in wanted:
            if value is not None:
                query = query.where(column == value)
        if after is not None:
            created_at, run_id = cursors.read_pair(after, self._tenant)
            older = (_runs.created_at == created_at) & (_runs.id < run_id)
            query = query.where((_runs.created_at < created_at) | older)
        with self._database.reading() as connection:
            found = connection.execute(query).mappings().all()
        page = found[:limit]
        more = len(found) > limit
        cursor = cursors.write_pair(page[-1]["created_at"], page[-1]["id"], self._tenant) if more else None
        return RunList(runs=[rows.run(row) for row in page], after=cursor)

    def children(self, *run_ids: str) -> list[Run]:
        """Return the runs that continue one of some runs, oldest first; none if these do not exist."""
        query = select(schema.runs).where(_runs.parent.in_(run_ids), rows.KEPT, *self._mine)
        query = query.order_by(_runs.created_at, _runs.id)
        with self._database.reading() as connection:
            return [rows.run(row) for row in connection.execute(query).mappings()]

    def events(self, run_id: str, *, after: int, limit: int = 500) -> list[RunEvent]:
        """Return the events of a run with larger ids than ``after``, oldest first."""
        query = select(schema.events).where(_events.run_id == run_id, _events.id > after)
        if self._tenant is not None:
            query = query.join(schema.runs, _runs.id == _events.run_id).where(*self._mine)
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

    def active_runs(self) -> int:
        """Return how many runs have not ended, as the ledger keeps it."""
        with self._database.reading() as connection:
            return totals.active_runs(connection)

    def total_cost(self) -> Cost:
        """Return the cost of the recorded items of all runs, deleted ones too, as the ledger keeps it."""
        with self._database.reading() as connection:
            return totals.total_cost(connection)

    def _new_run(self, run_id: str, total: int, staged: bool) -> dict[str, Any]:
        now = self._clock()
        zeros = dict.fromkeys(rows.COUNTED, 0)
        without_items = ("finalizing", None) if staged else (end_state(zeros), now)
        state, ended_at = ("queued", None) if total else without_items
        times = {"created_at": now, "started_at": None, "ended_at": ended_at, "served_at": 0.0}
        counters = {"total": total, **zeros, "pending": total}
        return {"id": run_id, "state": state, "staged": staged, **counters, **times}


def _run_row(connection: Connection, run_id: str) -> RowMapping:
    row = connection.execute(_RUN, rows.named(connection, run_id)).mappings().first()
    if row is None:
        raise rows.absent(connection, run_id)
    return row
