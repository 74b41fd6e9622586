"""Jobs: created and cancelled by requests, leased to one gateway at a time, their attempts claimed and ended.

A gateway that is killed or too slow loses its lease. The next one raises the fence, and what the first one
still wants to write is refused: so no two attempts of one job are claimed at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, RowMapping, and_, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from counterpose_core.contract.base import Problem
from counterpose_core.contract.jobs import Job, JobList
from counterpose_core.errors import LeaseLost, NotFound, RunNotCancellable
from counterpose_core.kinds import KINDS, unknown_kind
from counterpose_core.types import FINAL_JOB_STATES, FINAL_RUN_STATES, JobState, RunKind
from counterpose_gateway.ledger.database import cursors
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.jobs import JobNews, LeasedAttempt, LeasedJob, dataset_of
from counterpose_gateway.records.tenants import DEFAULT_TENANT

CREATOR_SECONDS = 120.0
"""How long a job waits for its run from who created it, before another gateway makes it."""

REPORTED_SECONDS = 4.0
"""An attempt's workers report together: one that finds a report younger than this writes none."""

_jobs = schema.jobs.c
_attempts = schema.job_attempts.c
_runs = schema.runs.c
_LEASED = ("id", "cluster", "workers", "kind", "request", "state", "run_id", "fruitless", "tenant")


class Jobs:
    """Jobs on clusters.

    Every method that takes a `LeasedJob` raises LeaseLost if another gateway looks after the job by now, or
    if it was cancelled or has ended.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(
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
        job_id, tenant = secrets.token_hex(16), self._session.tenant or DEFAULT_TENANT
        row: dict[str, Any] = {
            "id": job_id, "cluster": cluster, "workers": workers, "kind": kind, "request": dict(request),
            "state": "queued", "run_id": None, "fingerprint": fingerprint, "tenant": tenant,
            "created_at": self._session.clock(), "message": "", "attempt": 0, "fruitless": 0, "progress": 0,
            "fence": 1, "look_at": self._session.lease_time() + CREATOR_SECONDS,
        }  # fmt: skip
        if idempotency_key is not None:
            row["idempotency_key"] = rows.request_key(self._session.tenant, idempotency_key)
        try:
            with self._session.writing() as connection:
                connection.execute(insert(schema.jobs).values(row))
        except IntegrityError as error:
            if idempotency_key is None:
                raise
            raise rows.in_flight(idempotency_key) from error
        return LeasedJob(
            id=job_id, cluster=cluster, workers=workers, kind=kind, request=request, state="queued",
            run_id=None, attempts=0, fruitless=0, fence=1, tenant=tenant,
        )  # fmt: skip

    def for_key(self, idempotency_key: str, fingerprint: str) -> Job | None:
        """Return the job that this key made, or None.

        Raises:
            IdempotencyConflict: it was made with another ``fingerprint``.
            IdempotencyInFlight: its run is still being made, and may yet be refused.
        """
        with self._session.reading() as connection:
            mine = _jobs.idempotency_key == rows.request_key(self._session.tenant, idempotency_key)
            row = rows.first(connection, select(schema.jobs).where(mine))
            if row is None:
                return None
            rows.require_same_body(row, idempotency_key, fingerprint)
            if row["run_id"] is None and row["fence"] == 1 and row["look_at"] > self._session.lease_time():
                raise rows.in_flight(idempotency_key)
            return _job(row, _attempts_of(connection, [row["id"]]))

    def drop(self, leased: LeasedJob) -> None:
        """Forget a job whose run was refused before anyone was told of the job."""
        mine = (_jobs.id == leased.id, _jobs.fence == leased.fence, _jobs.run_id.is_(None))
        with self._session.writing() as connection:
            connection.execute(delete(schema.jobs).where(*mine))

    def get(self, job_id: str) -> Job:
        """Return a job.

        Raises:
            NotFound: it does not exist.
        """
        with self._session.reading() as connection:
            return _job(_row(connection, job_id), _attempts_of(connection, [job_id]))

    def page(self, *, after: str | None = None, limit: int = 50) -> JobList:
        """Return a page of jobs, newest first."""
        with self._session.reading() as connection:
            mine = rows.is_own(connection, _jobs.tenant)
            page, cursor = cursors.page_of(connection, schema.jobs, self._session.tenant, after, limit, mine)
            attempts = _attempts_of(connection, [row["id"] for row in page])
        return JobList(jobs=[_job(row, attempts) for row in page], after=cursor)

    def begin_cancelling(self, job_id: str) -> str | None:
        """Let a job end: no attempt follows. Return its run, if it has one, for the caller to cancel.

        Raises:
            NotFound: it does not exist.
            RunNotCancellable: it has ended.
        """
        with self._session.writing() as connection:
            row = _row(connection, job_id, locked=True)
            if row["state"] in FINAL_JOB_STATES:
                raise RunNotCancellable(f"job {job_id!r} is {row['state']} and can no longer be cancelled")
            # Whoever looks after the job now must not go on with it: the fence ends that lease.
            values = {"state": "cancelling", "fence": row["fence"] + 1, "look_at": 0.0, "message": ""}
            connection.execute(update(schema.jobs).where(_jobs.id == job_id).values(values))
        run_id: str | None = row["run_id"]
        return run_id

    def lease(self, clusters: Collection[str], seconds: float) -> LeasedJob | None:
        """Lease the job of these clusters that waits longest to be looked at, if one does.

        One that is being cancelled is leased whatever its cluster is: the operator may have removed that.
        """
        return self._session.lease_first(
            lambda connection: self._waiting_job(connection, clusters),
            lambda connection, found: self._lease_waiting_job(connection, found, seconds),
        )

    def set_run(self, leased: LeasedJob, run_id: str) -> None:
        """Note the run that the job has made."""
        self._write(leased, {"run_id": run_id})

    def put_off(self, leased: LeasedJob, seconds: float, message: str = "") -> None:
        """Give the lease back; the job is looked at again after so many seconds."""
        values = {"look_at": self._session.lease_time() + seconds, "message": message}
        # The next look may be another gateway's: what this one still holds is void from here on.
        self._write(leased, {**values, "fence": leased.fence + 1})

    def claim_attempt(self, leased: LeasedJob) -> LeasedAttempt:
        """Claim the job's next attempt, before anything is sent to the cluster."""
        with self._session.writing() as connection:
            job = _held(connection, leased)
            number = job["attempt"] + 1
            progress = _progress(connection, job)
            came_on = number == 1 or progress != job["progress"]
            attempt = {
                "job_id": leased.id, "number": number, "submission_id": f"counterpose-{leased.id}-{number}",
                "created_at": self._session.clock(), "quiet_since": self._session.lease_time(),
            }  # fmt: skip
            connection.execute(insert(schema.job_attempts).values(attempt))
            fruitless = 0 if came_on else job["fruitless"]
            values = {"attempt": number, "progress": progress, "fruitless": fruitless, "message": ""}
            _set(connection, leased, values)
        return LeasedAttempt(
            number=number, submission_id=attempt["submission_id"], submitted=False, seen=False, quiet_s=0.0
        )  # fmt: skip

    def note_submitted(self, leased: LeasedJob, attempt: LeasedAttempt) -> None:
        """Note that the cluster has an attempt: from now on it must report."""
        with self._session.writing() as connection:
            _held(connection, leased)
            values = {"submitted_at": self._session.clock(), "quiet_since": self._session.lease_time()}
            connection.execute(update(schema.job_attempts).where(_one(leased, attempt)).values(values))

    def end_attempt(self, leased: LeasedJob, attempt: LeasedAttempt, detail: str) -> int:
        """End an attempt: its workers are needed no more. Return how many in a row got nowhere."""
        with self._session.writing() as connection:
            job = _held(connection, leased)
            values = {"ended_at": self._session.clock(), "detail": detail}
            connection.execute(update(schema.job_attempts).where(_one(leased, attempt)).values(values))
            came_on = _progress(connection, job) != job["progress"]
            fruitless: int = 0 if came_on else job["fruitless"] + 1
            _set(connection, leased, {"fruitless": fruitless})
        return fruitless

    def mark_working(self, leased: LeasedJob) -> None:
        """Note that workers of the job report."""
        with self._session.writing() as connection:
            job = _held(connection, leased)
            if job["state"] == "queued":
                started = job["started_at"] or max(self._session.clock(), job["created_at"])
                _set(connection, leased, {"state": "in_progress", "started_at": started})

    def end(self, leased: LeasedJob, state: JobState, problem: Problem | None = None) -> None:
        """End the job; its workers are needed no more."""
        with self._session.writing() as connection:
            job = _held(connection, leased)
            ended = max(self._session.clock(), job["created_at"])
            told = None if problem is None else problem.model_dump(mode="json")
            _set(connection, leased, {"state": state, "ended_at": ended, "problem": told, "message": ""})

    def news(self, job_id: str, attempt: int, *, works: bool = True) -> JobNews:
        """Tell a process of an attempt what it is to work on, and note that its attempt lives.

        ``works``: whether it is a worker; else it is the driver's, which only follows the job.
        """
        of_attempt = and_(_attempts.job_id == job_id, _attempts.number == attempt)
        query = (
            select(
                _jobs.state, _jobs.run_id, _jobs.request, _jobs.workers, _jobs.tenant, _attempts.ended_at,
                _attempts.quiet_since, _attempts.seen_at, _runs.state.label("of_run"),
            )
            .select_from(schema.jobs)
            .join(schema.job_attempts, of_attempt)
            .outerjoin(schema.runs, _runs.id == _jobs.run_id)
            .where(_jobs.id == job_id)
        )  # fmt: skip
        with self._session.reading_last_commit() as connection:
            row = rows.first(connection, query)
        if row is None or row["state"] in FINAL_JOB_STATES or row["ended_at"] is not None:
            return JobNews(run_id=None, needed=False)
        first = works and row["seen_at"] is None
        if first or row["quiet_since"] < self._session.lease_time() - REPORTED_SECONDS:
            self._report(job_id, attempt, works)
        return JobNews(
            run_id=row["run_id"],
            needed=row["of_run"] not in FINAL_RUN_STATES,
            dataset=_key_of_dataset(row),
            workers=row["workers"],
        )

    def _report(self, job_id: str, attempt: int, works: bool) -> None:
        now = self._session.lease_time()
        # Of many workers that find the report too old, one writes the next.
        old = or_(_attempts.quiet_since < now - REPORTED_SECONDS, _attempts.seen_at.is_(None))
        mine = and_(
            _attempts.job_id == job_id, _attempts.number == attempt, _attempts.ended_at.is_(None), old
        )  # fmt: skip
        values = {"quiet_since": now} | ({"seen_at": self._session.clock()} if works else {})
        with self._session.writing() as connection:
            connection.execute(update(schema.job_attempts).where(mine).values(values))

    def _waiting_job(self, connection: Connection, clusters: Collection[str]) -> str | None:
        ours = or_(
            and_(_jobs.cluster.in_(clusters), _jobs.kind.in_(list(KINDS))), _jobs.state == "cancelling"
        )
        due = and_(schema.OPEN_JOBS, _jobs.look_at <= self._session.lease_time(), ours)
        row = rows.first(connection, select(_jobs.id).where(due).order_by(_jobs.look_at, _jobs.id))
        return None if row is None else str(row["id"])

    def _lease_waiting_job(self, connection: Connection, job_id: str, seconds: float) -> LeasedJob | None:
        query = select(schema.jobs).where(_jobs.id == job_id).with_for_update()
        job = rows.first(connection, query)
        now = self._session.lease_time()
        # On PostgreSQL another gateway may have come between the look and the lock.
        if job is None or job["state"] in FINAL_JOB_STATES or job["look_at"] > now:
            return None
        fence = job["fence"] + 1
        values = {"fence": fence, "look_at": now + seconds}
        connection.execute(update(schema.jobs).where(_jobs.id == job_id).values(values))
        newest = and_(_attempts.job_id == job_id, _attempts.number == job["attempt"])
        attempt = rows.first(connection, select(schema.job_attempts).where(newest))
        return LeasedJob(
            **{name: job[name] for name in _LEASED},
            attempts=job["attempt"],
            fence=fence,
            attempt=None if attempt is None or attempt["ended_at"] is not None else _leased(attempt, now),
        )

    def _write(self, leased: LeasedJob, values: dict[str, Any]) -> None:
        with self._session.writing() as connection:
            _held(connection, leased)
            _set(connection, leased, values)


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
    own = [dict(attempt) for attempt in attempts if attempt["job_id"] == row["id"]]
    is_known = row["kind"] in KINDS or row["state"] in FINAL_JOB_STATES
    message = row["message"] if is_known else unknown_kind(row["kind"])
    return Job.model_validate({**row, "run": row["run_id"], "attempts": own, "message": message})


def _leased(attempt: RowMapping, now: float) -> LeasedAttempt:
    return LeasedAttempt(
        number=attempt["number"],
        submission_id=attempt["submission_id"],
        submitted=attempt["submitted_at"] is not None,
        seen=attempt["seen_at"] is not None,
        quiet_s=max(0.0, now - attempt["quiet_since"]),
    )


def _held(connection: Connection, leased: LeasedJob) -> RowMapping:
    row = rows.first(connection, select(schema.jobs).where(_jobs.id == leased.id).with_for_update())
    if row is None or row["fence"] != leased.fence or row["state"] in FINAL_JOB_STATES:
        raise LeaseLost(f"the lease of job {leased.id!r} is no longer valid")
    return row


def _set(connection: Connection, leased: LeasedJob, values: dict[str, Any]) -> None:
    connection.execute(update(schema.jobs).where(_jobs.id == leased.id).values(values))


def _one(leased: LeasedJob, attempt: LeasedAttempt) -> Any:
    return and_(_attempts.job_id == leased.id, _attempts.number == attempt.number)


def _key_of_dataset(job: RowMapping) -> str | None:
    name = dataset_of(job["request"])
    return None if name is None else rows.dataset_key(job["tenant"], name)


def _progress(connection: Connection, job: RowMapping) -> int:
    """Return a number that changes with every image imported, and every item planned or ended."""
    if job["run_id"] is None:
        key = _key_of_dataset(job)
        query = select(schema.datasets.c.n_sources).where(schema.datasets.c.name == key)
        return int(connection.execute(query).scalar() or 0)
    row = rows.first(connection, select(_runs.total, _runs.pending).where(_runs.id == job["run_id"]))
    # An empty run is more than a dataset without one.
    return -1 if row is None else -2 - 2 * int(row["total"]) + int(row["pending"])
