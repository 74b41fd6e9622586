"""Turn a request for a job into a durable job with its run; and make the run where that was left undone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import TypeAdapter

from counterpose_core.contract.jobs import Job, JobCreate, RunOfJob
from counterpose_core.contract.runs import Run
from counterpose_core.errors import (
    CounterposeError,
    DatasetNotReady,
    InvalidRequest,
    LeaseLost,
    RunNotCancellable,
)
from counterpose_core.types import RunKind
from counterpose_gateway.jobs.clusters import Clusters
from counterpose_gateway.methods import METHODS
from counterpose_gateway.records.jobs import LeasedJob
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.submission import fingerprint, submit

RUN_POINTER = "/run/request"
_RUN: TypeAdapter[RunOfJob] = TypeAdapter(RunOfJob)


class JobLedger(Protocol):
    """What creating a job needs of the ledger; `counterpose_gateway.ledger.Ledger` is one."""

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
        """Make a job durable, and lease it to its creator."""
        ...

    def job_for_key(self, idempotency_key: str, fingerprint: str) -> Job | None:
        """Return the job that this key made, or None."""
        ...

    def drop_job(self, leased: LeasedJob) -> None:
        """Forget a job whose run was refused."""
        ...

    def set_run(self, leased: LeasedJob, run_id: str) -> None:
        """Note the run that the job has made."""
        ...

    def put_off(self, leased: LeasedJob, seconds: float, message: str = "") -> None:
        """Give the lease back."""
        ...

    def job(self, job_id: str) -> Job:
        """Return a job."""
        ...

    def begin_cancelling_job(self, job_id: str) -> str | None:
        """Let a job end, and return its run."""
        ...

    def cancel(self, run_id: str) -> Run:
        """Cancel a run."""
        ...


async def submit_job(
    create: JobCreate, clusters: Clusters, ledger: JobLedger, context: RunContext, key: str | None
) -> Job:
    """Make a job and its run durable; a key that made a job before returns that job.

    A launcher submits it to its cluster. If its run is refused, nothing is left of the job.

    Raises:
        InvalidRequest: the cluster is unknown, or the run needs functions of the caller's program.
        BackendUnavailable: the cluster does not answer.
        ClusterRefused: the cluster refuses the token, or runs another version of Ray.
        RequestError: the run cannot be planned.
    """
    seal = fingerprint(create)
    known = None if key is None else await asyncio.to_thread(ledger.job_for_key, key, seal)
    if known is not None:
        return known
    cluster = clusters.named(create.cluster)
    _refuse_functions(create.run)
    # Asked now: a job for a cluster that is not there would be found out hours later.
    await cluster.check()
    leased = await asyncio.to_thread(
        ledger.create_job,
        cluster=create.cluster,
        workers=create.workers,
        kind=create.run.kind,
        request=create.run.request.model_dump(mode="json", exclude_unset=True),
        fingerprint=seal,
        idempotency_key=key,
    )
    try:
        run = await make_run(leased, context)
    except DatasetNotReady:
        # Its workers import the dataset first; a launcher makes the run when that has ended.
        await asyncio.to_thread(ledger.put_off, leased, 0.0)
        return await asyncio.to_thread(ledger.job, leased.id)
    except CounterposeError as error:
        await asyncio.to_thread(ledger.drop_job, leased)
        if error.pointer is not None:
            error.pointer = RUN_POINTER + error.pointer
        raise
    try:
        await asyncio.to_thread(ledger.set_run, leased, run.id)
        await asyncio.to_thread(ledger.put_off, leased, 0.0)
    except LeaseLost:
        # Planning took so long that a launcher has taken the job over; it found the same run.
        pass
    return await asyncio.to_thread(ledger.job, leased.id)


async def make_run(leased: LeasedJob, context: RunContext) -> Run:
    """Make the job's run, or return the one that it has made: its id is the run's idempotency key.

    ``context``: that of the job's tenant.
    """
    run = _RUN.validate_python({"kind": leased.kind, "request": dict(leased.request)})
    return await submit(METHODS[run.kind], run.request, context, f"job:{leased.id}")


def cancel_job(job_id: str, ledger: JobLedger) -> Job:
    """Cancel a job and its run; a launcher ends what still runs of it.

    Raises:
        NotFound: it does not exist.
        RunNotCancellable: it has ended.
    """
    run_id = ledger.begin_cancelling_job(job_id)
    # A run that has just ended by itself ends the job, too.
    with contextlib.suppress(RunNotCancellable):
        if run_id is not None:
            ledger.cancel(run_id)
    return ledger.job(job_id)


def _refuse_functions(run: RunOfJob) -> None:
    if named := ", ".join(map(repr, run.request.functions)):
        raise InvalidRequest(
            f"{named}: a job's workers reach no function of your own program; serve the model where the "
            "services reach it as oip:<url>",
            pointer=f"{RUN_POINTER}/functions",
        )
