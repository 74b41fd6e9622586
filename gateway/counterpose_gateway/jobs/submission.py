"""Turn a request for a job into a durable job with its run; and make the run where that was left undone."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

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
from counterpose_gateway.jobs.ray_cluster import Clusters
from counterpose_gateway.methods import METHODS
from counterpose_gateway.records.jobs import LeasedJob
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.submission import fingerprint, submit

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

RUN_POINTER = "/run/request"
_RUN: TypeAdapter[RunOfJob] = TypeAdapter(RunOfJob)


async def submit_job(
    create: JobCreate, clusters: Clusters, ledger: Ledger, context: RunContext, key: str | None
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
    known = None if key is None else await asyncio.to_thread(ledger.jobs.for_key, key, seal)
    if known is not None:
        return known
    cluster = clusters.named(create.cluster)
    _refuse_functions(create.run)
    # Asked now: a job for a cluster that is not there would be found out hours later.
    await cluster.check()
    leased = await asyncio.to_thread(
        ledger.jobs.create,
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
        await asyncio.to_thread(ledger.jobs.put_off, leased, 0.0)
        return await asyncio.to_thread(ledger.jobs.get, leased.id)
    except CounterposeError as error:
        await asyncio.to_thread(ledger.jobs.drop, leased)
        if error.pointer is not None:
            error.pointer = RUN_POINTER + error.pointer
        raise
    try:
        await asyncio.to_thread(ledger.jobs.set_run, leased, run.id)
        await asyncio.to_thread(ledger.jobs.put_off, leased, 0.0)
    except LeaseLost:
        # Planning took so long that a launcher has taken the job over; it found the same run.
        pass
    return await asyncio.to_thread(ledger.jobs.get, leased.id)


async def make_run(leased: LeasedJob, context: RunContext) -> Run:
    """Make the job's run, or return the one that it has made: its id is the run's idempotency key.

    ``context``: that of the job's tenant.
    """
    run = _RUN.validate_python({"kind": leased.kind, "request": dict(leased.request)})
    return await submit(METHODS[run.kind], run.request, context, f"job:{leased.id}")


def cancel_job(job_id: str, ledger: Ledger) -> Job:
    """Cancel a job and its run; a launcher ends what still runs of it.

    Raises:
        NotFound: it does not exist.
        RunNotCancellable: it has ended.
    """
    run_id = ledger.jobs.begin_cancelling(job_id)
    # A run that has just ended by itself ends the job, too.
    with contextlib.suppress(RunNotCancellable):
        if run_id is not None:
            ledger.runs.cancel(run_id)
    return ledger.jobs.get(job_id)


def _refuse_functions(run: RunOfJob) -> None:
    if named := ", ".join(map(repr, run.request.functions)):
        raise InvalidRequest(
            f"{named}: a job's workers reach no function of your own program; serve the model where the "
            "services reach it as oip:<url>",
            pointer=f"{RUN_POINTER}/functions",
        )
