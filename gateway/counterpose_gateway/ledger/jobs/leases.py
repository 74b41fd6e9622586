"""Jobs as launchers and workers see them: leased to one gateway at a time, their attempts claimed and ended.

A gateway that is killed or too slow loses its lease. The next one raises the fence, and what the first one
still wants to write is refused: so no two attempts of one job are claimed at once.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, RowMapping, and_, insert, or_, select, update

from counterpose_core.contract.base import Problem
from counterpose_core.errors import LeaseLost
from counterpose_core.types import FINAL_JOB_STATES, FINAL_RUN_STATES, JobState
from counterpose_gateway.ledger.database.engine import LedgerPart
from counterpose_gateway.ledger.database.lease_time import LeaseTime
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.jobs import JobNews, LeasedAttempt, LeasedJob, dataset_of

REPORTED_SECONDS = 4.0
"""An attempt's workers report together: one that finds a report younger than this writes none."""

_jobs = schema.jobs.c
_attempts = schema.job_attempts.c
_runs = schema.runs.c


class JobLeases(LedgerPart):
    """The part of the ledger that launchers and workers of jobs call.

    Every method that takes a `LeasedJob` raises LeaseLost if another gateway looks after the job by now, or
    if it was cancelled or has ended.
    """

    _lease_time: LeaseTime

    def lease_job(self, clusters: Collection[str], seconds: float) -> LeasedJob | None:
        """Lease the job of these clusters that waits longest to be looked at, if one does.

        One that is being cancelled is leased whatever its cluster is: the operator may have removed that.
        """
        return self._lease_first(
            lambda connection: self._waiting_job(connection, clusters),
            lambda connection, found: self._lease_waiting_job(connection, found, seconds),
        )

    def set_run(self, leased: LeasedJob, run_id: str) -> None:
        """Note the run that the job has made."""
        self._write(leased, {"run_id": run_id})

    def put_off(self, leased: LeasedJob, seconds: float, message: str = "") -> None:
        """Give the lease back; the job is looked at again after so many seconds."""
        values = {"look_at": self._lease_time() + seconds, "message": message}
        # The next look may be another gateway's: what this one still holds is void from here on.
        self._write(leased, {**values, "fence": leased.fence + 1})

    def claim_attempt(self, leased: LeasedJob) -> LeasedAttempt:
        """Claim the job's next attempt, before anything is sent to the cluster."""
        with self._database.writing() as connection:
            job = _held(connection, leased)
            number = job["attempt"] + 1
            progress = _progress(connection, job)
            came_on = number == 1 or progress != job["progress"]
            attempt = {
                "job_id": leased.id, "number": number, "submission_id": f"counterpose-{leased.id}-{number}",
                "created_at": self._clock(), "quiet_since": self._lease_time(),
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
        with self._database.writing() as connection:
            _held(connection, leased)
            values = {"submitted_at": self._clock(), "quiet_since": self._lease_time()}
            connection.execute(update(schema.job_attempts).where(_one(leased, attempt)).values(values))

    def end_attempt(self, leased: LeasedJob, attempt: LeasedAttempt, detail: str) -> int:
        """End an attempt: its workers are needed no more. Return how many in a row got nowhere."""
        with self._database.writing() as connection:
            job = _held(connection, leased)
            values = {"ended_at": self._clock(), "detail": detail}
            connection.execute(update(schema.job_attempts).where(_one(leased, attempt)).values(values))
            came_on = _progress(connection, job) != job["progress"]
            fruitless: int = 0 if came_on else job["fruitless"] + 1
            _set(connection, leased, {"fruitless": fruitless})
        return fruitless

    def mark_working(self, leased: LeasedJob) -> None:
        """Note that workers of the job report."""
        with self._database.writing() as connection:
            job = _held(connection, leased)
            if job["state"] == "queued":
                started = job["started_at"] or max(self._clock(), job["created_at"])
                _set(connection, leased, {"state": "in_progress", "started_at": started})

    def end_job(self, leased: LeasedJob, state: JobState, problem: Problem | None = None) -> None:
        """End the job; its workers are needed no more."""
        with self._database.writing() as connection:
            job = _held(connection, leased)
            ended = max(self._clock(), job["created_at"])
            told = None if problem is None else problem.model_dump(mode="json")
            _set(connection, leased, {"state": state, "ended_at": ended, "problem": told, "message": ""})

    def job_news(self, job_id: str, attempt: int, *, works: bool = True) -> JobNews:
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
        with self._database.reading_last_commit() as connection:
            row = rows.first(connection, query)
        if row is None or row["state"] in FINAL_JOB_STATES or row["ended_at"] is not None:
            return JobNews(run_id=None, needed=False)
        first = works and row["seen_at"] is None
        if first or row["quiet_since"] < self._lease_time() - REPORTED_SECONDS:
            self._report(job_id, attempt, works)
        return JobNews(
            run_id=row["run_id"],
            needed=row["of_run"] not in FINAL_RUN_STATES,
            dataset=_key_of_dataset(row),
            workers=row["workers"],
        )

    def _report(self, job_id: str, attempt: int, works: bool) -> None:
        now = self._lease_time()
        # Of many workers that find the report too old, one writes the next.
        old = or_(_attempts.quiet_since < now - REPORTED_SECONDS, _attempts.seen_at.is_(None))
        mine = and_(
            _attempts.job_id == job_id, _attempts.number == attempt, _attempts.ended_at.is_(None), old
        )  # fmt: skip
        values = {"quiet_since": now} | ({"seen_at": self._clock()} if works else {})
        with self._database.writing() as connection:
            connection.execute(update(schema.job_attempts).where(mine).values(values))

    def _waiting_job(self, connection: Connection, clusters: Collection[str]) -> str | None:
        ours = or_(_jobs.cluster.in_(clusters), _jobs.state == "cancelling")
        due = and_(schema.OPEN_JOBS, _jobs.look_at <= self._lease_time(), ours)
        row = rows.first(connection, select(_jobs.id).where(due).order_by(_jobs.look_at, _jobs.id))
        return None if row is None else str(row["id"])

    def _lease_waiting_job(self, connection: Connection, job_id: str, seconds: float) -> LeasedJob | None:
        query = select(schema.jobs).where(_jobs.id == job_id).with_for_update()
        job = rows.first(connection, query)
        now = self._lease_time()
        # On PostgreSQL another gateway may have come between the look and the lock.
        if job is None or job["state"] in FINAL_JOB_STATES or job["look_at"] > now:
            return None
        fence = job["fence"] + 1
        values = {"fence": fence, "look_at": now + seconds}
        connection.execute(update(schema.jobs).where(_jobs.id == job_id).values(values))
        newest = and_(_attempts.job_id == job_id, _attempts.number == job["attempt"])
        attempt = rows.first(connection, select(schema.job_attempts).where(newest))
        return LeasedJob(
            id=job_id,
            cluster=job["cluster"],
            workers=job["workers"],
            kind=job["kind"],
            request=job["request"],
            state=job["state"],
            run_id=job["run_id"],
            attempts=job["attempt"],
            fruitless=job["fruitless"],
            fence=fence,
            tenant=job["tenant"],
            attempt=None if attempt is None or attempt["ended_at"] is not None else _leased(attempt, now),
        )

    def _write(self, leased: LeasedJob, values: dict[str, Any]) -> None:
        with self._database.writing() as connection:
            _held(connection, leased)
            _set(connection, leased, values)


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
