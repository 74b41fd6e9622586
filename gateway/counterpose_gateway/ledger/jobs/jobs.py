"""Jobs: created, listed, cancelled; a gateway's launcher does the rest (`job_leases`)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from counterpose_core.contract.base import Problem
from counterpose_core.contract.jobs import Job, JobAttempt, JobList
from counterpose_core.errors import (
    IdempotencyConflict,
    IdempotencyInFlight,
    NotFound,
    RunNotCancellable,
)
from counterpose_core.types import FINAL_JOB_STATES, RunKind
from counterpose_gateway.ledger.database import cursors
from counterpose_gateway.ledger.database.engine import LedgerPart
from counterpose_gateway.ledger.database.lease_time import LeaseTime
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.jobs import LeasedJob
from counterpose_gateway.records.tenants import DEFAULT_TENANT

CREATOR_SECONDS = 120.0
"""How long a job waits for its run from who created it, before another gateway makes it."""

_jobs = schema.jobs.c
_attempts = schema.job_attempts.c


class Jobs(LedgerPart):
    """The part of the ledger that the routes of jobs call."""

    _lease_time: LeaseTime

    def create_job(
        self,
        *,
        cluster: str,
        workers: int,
        kind: RunKind,
        request: Mapping[str, Any],
        fingerprint: str,
        idempotency_key: str | None = None,
    ) -> LeasedJob:
        """Make a job durable, and lease it to its creator for `CREATOR_SECONDS`, to make its run.

        Raises:
            IdempotencyConflict: the key made a job with another ``fingerprint``.
            IdempotencyInFlight: the key makes a job in another call just now.
        """
        job_id, tenant = secrets.token_hex(16), self._tenant or DEFAULT_TENANT
        row: dict[str, Any] = {
            "id": job_id, "cluster": cluster, "workers": workers, "kind": kind, "request": dict(request),
            "state": "queued", "run_id": None, "fingerprint": fingerprint, "tenant": tenant,
            "created_at": self._clock(), "message": "", "attempt": 0, "fruitless": 0, "progress": 0,
            "fence": 1, "look_at": self._lease_time() + CREATOR_SECONDS,
        }  # fmt: skip
        if idempotency_key is not None:
            row["idempotency_key"] = rows.request_key(self._tenant, idempotency_key)
        try:
            with self._database.writing() as connection:
                connection.execute(insert(schema.jobs).values(row))
        except IntegrityError as error:
            if idempotency_key is None:
                raise
            raise IdempotencyInFlight(
                f"the first call with the idempotency key {idempotency_key!r} is still running; retry later"
            ) from error
        return LeasedJob(
            id=job_id, cluster=cluster, workers=workers, kind=kind, request=request, state="queued",
            run_id=None, attempts=0, fruitless=0, fence=1, tenant=tenant,
        )  # fmt: skip

    def job_for_key(self, idempotency_key: str, fingerprint: str) -> Job | None:
        """Return the job that this key made, or None.

        Raises:
            IdempotencyConflict: it was made with another ``fingerprint``.
            IdempotencyInFlight: its run is still being made, and may yet be refused.
        """
        with self._database.reading() as connection:
            mine = _jobs.idempotency_key == rows.request_key(self._tenant, idempotency_key)
            row = rows.first(connection, select(schema.jobs).where(mine))
            if row is None:
                return None
            if row["fingerprint"] != fingerprint:
                raise IdempotencyConflict(
                    f"the idempotency key {idempotency_key!r} belongs to another body; "
                    "send this one under a new key"
                )
            if row["run_id"] is None and row["fence"] == 1 and row["look_at"] > self._lease_time():
                raise IdempotencyInFlight(
                    f"the first call with the idempotency key {idempotency_key!r} is still running; "
                    "retry later"
                )
            return _job(row, _attempts_of(connection, [row["id"]]))

    def drop_job(self, leased: LeasedJob) -> None:
        """Forget a job whose run was refused before anyone was told of the job."""
        mine = (_jobs.id == leased.id, _jobs.fence == leased.fence, _jobs.run_id.is_(None))
        with self._database.writing() as connection:
            connection.execute(delete(schema.jobs).where(*mine))

    def job(self, job_id: str) -> Job:
        """Return a job.

        Raises:
            NotFound: it does not exist.
        """
        with self._database.reading() as connection:
            return _job(_row(connection, job_id), _attempts_of(connection, [job_id]))

    def job_list(self, *, after: str | None = None, limit: int = 50) -> JobList:
        """Return a page of jobs, newest first."""
        query = select(schema.jobs).order_by(_jobs.created_at.desc(), _jobs.id.desc()).limit(limit + 1)
        if after is not None:
            created_at, job_id = cursors.read_pair(after, self._tenant)
            older = (_jobs.created_at == created_at) & (_jobs.id < job_id)
            query = query.where((_jobs.created_at < created_at) | older)
        with self._database.reading() as connection:
            mine = rows.is_own(connection, _jobs.tenant)
            found = connection.execute(query.where(mine)).mappings().all()
            page = found[:limit]
            attempts = list(_attempts_of(connection, [row["id"] for row in page]))
        more = len(found) > limit
        last = (page[-1]["created_at"], page[-1]["id"]) if more else None
        cursor = None if last is None else cursors.write_pair(*last, self._tenant)
        return JobList(jobs=[_job(row, attempts) for row in page], after=cursor)

    def begin_cancelling_job(self, job_id: str) -> str | None:
        """Let a job end: no attempt follows. Return its run, if it has one, for the caller to cancel.

        Raises:
            NotFound: it does not exist.
            RunNotCancellable: it has ended.
        """
        with self._database.writing() as connection:
            row = _row(connection, job_id, locked=True)
            if row["state"] in FINAL_JOB_STATES:
                raise RunNotCancellable(f"job {job_id!r} is {row['state']} and can no longer be cancelled")
            # Whoever looks after the job now must not go on with it: the fence ends that lease.
            values = {"state": "cancelling", "fence": row["fence"] + 1, "look_at": 0.0, "message": ""}
            connection.execute(update(schema.jobs).where(_jobs.id == job_id).values(values))
        run_id: str | None = row["run_id"]
        return run_id


def _row(connection: Connection, job_id: str, *, locked: bool = False) -> RowMapping:
    query = select(schema.jobs).where(_jobs.id == job_id, rows.is_own(connection, _jobs.tenant))
    row = rows.first(connection, query.with_for_update() if locked else query)
    if row is None:
        raise NotFound(f"no job {job_id!r}: `GET /v1/jobs` lists the jobs")
    return row


def _attempts_of(connection: Connection, job_ids: list[str]) -> list[RowMapping]:
    query = select(schema.job_attempts).where(_attempts.job_id.in_(job_ids)).order_by(_attempts.number)
    return list(connection.execute(query).mappings())


def _job(row: RowMapping, attempts: Iterable[RowMapping]) -> Job:
    return Job(
        id=row["id"],
        cluster=row["cluster"],
        workers=row["workers"],
        kind=row["kind"],
        state=row["state"],
        run=row["run_id"],
        created_at=rows.known_moment(row["created_at"]),
        started_at=rows.moment(row["started_at"]),
        ended_at=rows.moment(row["ended_at"]),
        message=row["message"],
        problem=None if row["problem"] is None else Problem.model_validate(row["problem"]),
        attempts=[_attempt(attempt) for attempt in attempts if attempt["job_id"] == row["id"]],
    )


def _attempt(row: RowMapping) -> JobAttempt:
    return JobAttempt(
        number=row["number"],
        submission_id=row["submission_id"],
        created_at=rows.known_moment(row["created_at"]),
        submitted_at=rows.moment(row["submitted_at"]),
        seen_at=rows.moment(row["seen_at"]),
        ended_at=rows.moment(row["ended_at"]),
        detail=row["detail"],
    )
