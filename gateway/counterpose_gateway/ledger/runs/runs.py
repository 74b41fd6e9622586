"""Runs: created with the items of their first stage, found, ended before their time, and let go on."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, or_, select, union, update
from sqlalchemy.exc import IntegrityError

from counterpose_core.contract.runs import Run, RunList
from counterpose_core.contract.spending import LargerLimits
from counterpose_core.errors import CounterposeError, NotFound
from counterpose_core.kinds import KINDS
from counterpose_core.types import RunKind, RunState
from counterpose_gateway.ledger.database import cursors
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.runs import changes, transitions
from counterpose_gateway.ledger.runs.spending import add_calls
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.items import LargeRun, PlannedItem
from counterpose_gateway.records.pace import never
from counterpose_gateway.records.spending import Allotment, CallsOfAccount
from counterpose_gateway.records.tenants import DEFAULT_TENANT

CREATOR_SECONDS = 30.0
"""How long a run waits for the rest of its items from who created it, before a worker plans them."""

_runs = schema.runs.c
_NAMED_AT_ONCE = 500

_RESTS = {"cancelling": changes.cancel_rest, "resuming": changes.resume_rest, "deleting": changes.delete_rest}
"""What goes on with a run, by the state that it is left in."""

_logger = logging.getLogger(__name__)


class Runs:
    """The runs of a ledger."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(
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
        spending: Allotment | None = None,
        calls: CallsOfAccount | None = None,
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
            spending: how much it may ask servers of others for, if it says so.
            calls: what planning has asked them for.

        Raises:
            NotFound: the run ``parent`` does not exist.
            IdempotencyConflict: the key made a run with another ``fingerprint``.
        """
        # 128 random bits: the id of one run reveals nothing about another's.
        run_id = secrets.token_hex(16)
        row = transitions.new_run(self._session, run_id, len(items), staged) | {
            "kind": kind, "dataset": dataset, "config": config, "fingerprint": fingerprint,
            "parent": parent, "trace": trace, "tenant": self._session.tenant or DEFAULT_TENANT,
        }  # fmt: skip
        if idempotency_key is not None:
            row["idempotency_key"] = rows.request_key(self._session.tenant, idempotency_key)
        if plan_sources is not None:
            row |= self._more_to_plan(plan_sources)
        # Made before the transaction: the lock is held for the writing alone.
        planned = transitions.new_items(run_id, items)
        try:
            return transitions.write_run(self._session, row, planned, functions, spending, calls)
        except IntegrityError:
            # Two calls with one key raced; the unique column accepted one of them, whose run is the answer.
            known = None if idempotency_key is None else self.for_key(idempotency_key, fingerprint)
            if known is None:
                raise
            return self._with_calls(known, calls) if calls else self.get(known)

    def _with_calls(self, run_id: str, calls: CallsOfAccount) -> Run:
        """Add what another planning of a run has asked for, and return the run."""
        with self._session.writing() as connection:
            rows.locked_counters(connection, run_id)
            add_calls(connection, run_id, calls)
        return self.get(run_id)

    def _more_to_plan(self, plan_sources: Mapping[str, int]) -> dict[str, Any]:
        return {
            "state": "validating",
            "plan_sources": dict(plan_sources),
            "planning_fence": 1,
            "planning_due_at": self._session.lease_time() + CREATOR_SECONDS,
        }

    @property
    def _mine(self) -> list[ColumnElement[bool]]:
        """The condition on runs that are shown, if not all are."""
        return [] if self._session.tenant is None else [_runs.tenant == self._session.tenant]

    def tenant_of(self, run_id: str) -> str:
        """Return whose a run is; raises `NotFound`."""
        with self._session.reading() as connection:
            return str(rows.run_row(connection, run_id)["tenant"])

    def functions(self, run_id: str) -> dict[str, str]:
        """Return the addresses of the classifiers that the caller's program serves, by name.

        Raises:
            NotFound: the run does not exist.
        """
        with self._session.reading() as connection:
            return dict(rows.run_row(connection, run_id)["functions"] or {})

    def has_key(self, idempotency_key: str) -> bool:
        """Whether this key made a run, of whatever request."""
        key = rows.request_key(self._session.tenant, idempotency_key)
        with self._session.reading() as connection:
            return rows.first(connection, select(_runs.id).where(_runs.idempotency_key == key)) is not None

    def for_key(self, idempotency_key: str, fingerprint: str) -> str | None:
        """Return the run that this key made, or None.

        Raises:
            IdempotencyConflict: it was made with another ``fingerprint``.
        """
        with self._session.reading() as connection:
            mine = _runs.idempotency_key == rows.request_key(self._session.tenant, idempotency_key)
            query = select(_runs.id, _runs.fingerprint).where(mine)
            row = rows.first(connection, query)
        if row is None:
            return None
        rows.require_same_body(row, idempotency_key, fingerprint)
        return str(row["id"])

    def get(self, run_id: str, kind: RunKind | None = None) -> Run:
        """Return the current state of the run.

        Raises:
            NotFound: the run does not exist, or it is not of the requested ``kind``.
        """
        with self._session.reading() as connection:
            found = rows.run(rows.run_row(connection, run_id))
        if kind is not None and found.kind != kind:
            raise NotFound(f"run {run_id!r} is a {found.kind}, not a {kind}; ask for it under its own kind")
        return found

    def page(
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
        given = ((_runs.kind, kind), (_runs.state, state), (_runs.dataset, dataset), (_runs.parent, parent))
        wanted = [rows.KEPT, *self._mine, *(column == value for column, value in given if value is not None)]
        with self._session.reading() as connection:
            page, cursor = cursors.page_of(
                connection, schema.runs, self._session.tenant, after, limit, *wanted
            )
        return RunList(runs=[rows.run(row) for row in page], after=cursor)

    def children(self, *run_ids: str) -> list[Run]:
        """Return the runs that continue one of some runs, oldest first; none if these do not exist."""
        query = select(schema.runs).where(_runs.parent.in_(run_ids), rows.KEPT, *self._mine)
        query = query.order_by(_runs.created_at, _runs.id)
        with self._session.reading() as connection:
            return [rows.run(row) for row in connection.execute(query).mappings()]

    def rename(self, run_id: str, name: str | None) -> Run:
        """Give a run a name, or take it away; raises `NotFound`."""
        with self._session.writing() as connection:
            rows.locked_run(connection, run_id)
            connection.execute(update(schema.runs).where(_runs.id == run_id).values(name=name))
        return self.get(run_id)

    def cancelled(self, run_id: str) -> bool:
        """Return whether the run is cancelled, being cancelled, or stopped by a problem."""
        with self._session.reading_last_commit() as connection:
            row = connection.execute(changes.STATE, rows.named(connection, run_id)).mappings().first()
            if row is None:
                raise rows.absent(connection, run_id)
        return row["state"] in ("cancelling", "cancelled", "failed")

    def cancel(self, run_id: str) -> Run:
        """End the run now: finished items are kept, all others are cancelled, their leases are void.

        Called again for a run whose cancellation was interrupted, it goes on with it.

        Raises:
            RunNotCancellable: it has ended already.
        """
        changes.cancel(self._session, run_id)
        return self.get(run_id)

    def stop(self, run_id: str, why: CounterposeError) -> None:
        """End a run as failed with this problem and cancel its open items; one that has ended stays as it is.

        Raises:
            NotFound: the run does not exist.
        """
        changes.stop(self._session, run_id, why)

    def resume(
        self, run_id: str, functions: Mapping[str, str] | None = None, budget: LargerLimits | None = None
    ) -> Run:
        """Put failed and cancelled items of an ended run back to pending, with fresh attempts.

        A run whose next stage could not be planned, or that was cancelled during planning, is planned again;
        of one whose first stage is not stored whole, the rest is planned. Called again for a run whose
        resumption was interrupted, it goes on with it.

        Args:
            run_id: the run.
            functions: new addresses of functions of the run, by name.
            budget: new limits of what it may ask servers of others for.

        Raises:
            BudgetSpent: it stopped at its budget, and gets no larger one.
            InvalidRequest: it has no budget of this kind.
            RunNotResumable: it has not ended, or every item ended well.
            QuotaExceeded: its tenant has used up this month's quota.
        """
        changes.resume(self._session, run_id, functions, budget)
        return self.get(run_id)

    def delete(self, run_id: str) -> None:
        """Delete an ended run with its items, events and decisions.

        The first of its transactions takes the run from everybody's sight; the others delete its rows in
        chunks. Its images are noted (`loose_digests`): they go unless another run or a dataset has them.

        Raises:
            NotFound: the run does not exist, or it was deleted before.
            RunNotDeletable: it has not ended, or it continues a run that still exists.
        """
        changes.delete_run(self._session, run_id)

    def go_on(self, stopped: Callable[[], bool] = never) -> None:
        """Go on with interrupted cancellations, resumptions and deletions, until ``stopped`` says so.

        Another process may be doing the same; each chunk is done by one of them. An error is logged: the next
        process that starts tries again.
        """
        try:
            with self._session.reading() as connection:
                query = select(_runs.id, _runs.state).where(_runs.state.in_(_RESTS))
                interrupted = connection.execute(query).all()
            for run_id, state in interrupted:
                _RESTS[state](self._session, run_id, stopped)
        except CounterposeError as error:
            _logger.warning("interrupted changes of runs are left for later: %s", error.detail)

    def large(self, *, least_items: int, known: Collection[str]) -> Sequence[LargeRun]:
        """Return the runs of at least so many items that go on, and those ``known`` that there still are."""
        columns = select(_runs.id, _runs.kind, _runs.state, _runs.total - _runs.pending)
        # Each by its own partial index: most runs have ended.
        going_on = (schema.RUNS_TO_SERVE, schema.IDLE_RUNS, schema.RUNS_TO_PLAN)
        queries = [columns.where(condition, _runs.total >= least_items) for condition in going_on]
        queries.append(columns.where(_runs.id.in_(list(known)), rows.KEPT))
        with self._session.reading() as connection:
            return [LargeRun._make(row) for row in connection.execute(union(*queries))]

    def existing(self, run_ids: Collection[str]) -> Collection[str]:
        """Return which of these runs there are."""
        wanted, found = list(run_ids), set[str]()
        with self._session.reading() as connection:
            for start in range(0, len(wanted), _NAMED_AT_ONCE):
                named = _runs.id.in_(wanted[start : start + _NAMED_AT_ONCE])
                found.update(connection.execute(select(_runs.id).where(named, rows.KEPT)).scalars())
        return found

    def of_unknown_kinds(self) -> dict[str, str]:
        """Return the kinds of the runs by id that go on, and wait for a worker that knows their kind."""
        goes_on = or_(schema.RUNS_UNDER_WAY, schema.RUNS_TO_PLAN)
        query = select(_runs.id, _runs.kind).where(goes_on, _runs.kind.not_in(list(KINDS)))
        with self._session.reading() as connection:
            return {row.id: row.kind for row in connection.execute(query)}
