"""``/v1/jobs``: runs whose workers a Ray cluster starts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from counterpose_core.contract.jobs import Job, JobCreate, JobList
from counterpose_gateway.http.strict_json import StrictRoute
from counterpose_gateway.jobs.submission import cancel_job, submit_job
from counterpose_gateway.routes.context import After, Context, IdempotencyKey, PageSize
from counterpose_gateway.routes.methods import RUN_RETRY_AFTER

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=StrictRoute)

JobId = Annotated[str, Path(description="Id of the job.")]


@router.post("", status_code=202)
async def create_job(
    body: JobCreate, context: Context, response: Response, key: IdempotencyKey = None
) -> Job:
    """Create a job; it and its run are durable before the answer, and its cluster has answered."""
    job = await submit_job(body, context.clusters, context.ledger, context, key)
    response.headers["location"] = f"{router.prefix}/{job.id}"
    response.headers["retry-after"] = RUN_RETRY_AFTER
    return job


@router.get("")
def list_jobs(context: Context, after: After = None, limit: PageSize = 50) -> JobList:
    """List the jobs, newest first, a page at a time."""
    return context.ledger.jobs.page(after=after, limit=limit)


@router.post("/{job_id:segment}/cancel")
def cancel(job_id: JobId, context: Context) -> Job:
    """Cancel the job and its run; finished items are kept, and the workers on the cluster end."""
    return cancel_job(job_id, context.ledger)


@router.get("/{job_id:segment}")
def get_job(job_id: JobId, context: Context) -> Job:
    """Return a job with its attempts."""
    return context.ledger.jobs.get(job_id)
