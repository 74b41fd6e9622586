"""``counterpose jobs``: list, show and cancel runs that are jobs of a Ray cluster."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer
from pydantic import TypeAdapter

from counterpose._cli.groups import examples, group
from counterpose._cli.options import AsJson, Url
from counterpose._cli.tables import Table
from counterpose._cli.terminal import connected, print_result, show
from counterpose._run_ids import LAST, is_beginning
from counterpose._sync.client import Client
from counterpose._sync.jobs import ClusterJob
from counterpose_core.commands import SHORT_ID
from counterpose_core.contract.jobs import Job
from counterpose_core.errors import InvalidRequest, NotFound

OneJob = Annotated[str, typer.Argument(metavar="JOB", help="The job's id, the beginning of it, or @last.")]
Most = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most this many jobs.")]

app = group("List, show and cancel jobs of Ray clusters.")


@app.command("list", epilog=examples("counterpose jobs list --limit 5"))
def list_jobs(limit: Most = 50, as_json: AsJson = False, url: Url = None) -> None:
    """List the jobs, newest first."""
    with connected(url) as client:
        found = list(islice(client.jobs.list(), limit))
        as_bytes = TypeAdapter(list[Job]).dump_json
        print_result(as_bytes(found, indent=2).decode() if as_json else _table(found))


@app.command("show", epilog=examples("counterpose jobs show @last"))
def show_job(job: OneJob = "@last", as_json: AsJson = False, url: Url = None) -> None:
    """Show a job's state and its attempts."""
    with connected(url) as client:
        found = _named(client, job).job
        show(found, job_text(found), as_json)


@app.command(epilog=examples("counterpose jobs cancel 3fa8"))
def cancel(job: OneJob, as_json: AsJson = False, url: Url = None) -> None:
    """Cancel a job and its run; finished items are kept."""
    with connected(url) as client:
        cancelled = _named(client, job).cancel().job
        show(cancelled, cancelled.state, as_json)


def job_text(job: Job) -> str:
    """Say how a job fares."""
    lines = [
        f"job {job.id}: {job.state}",
        f"{job.kind} {job.run or '(its run is not made yet)'} on {job.cluster}, {job.workers} workers",
    ]
    if job.message:
        lines.append(job.message)
    if job.problem is not None:
        lines.append(f"{job.problem.code}: {job.problem.detail}")
    lines += [
        f"attempt {attempt.number}, {attempt.submission_id}: {attempt.detail or 'goes on'}"
        for attempt in job.attempts
    ]
    return "\n".join(lines)


def _table(jobs: list[Job]) -> str:
    rows = [
        (job.id[:SHORT_ID], job.kind, job.state, job.cluster, str(job.workers), str(len(job.attempts)))
        for job in jobs
    ]
    return str(Table(("job", "kind", "state", "cluster", "workers", "attempts"), rows))


def _named(client: Client, job: str) -> ClusterJob:
    """Return a job by its id, the beginning of its id, or ``@last``."""
    if job != LAST and not is_beginning(job):
        return client.jobs.get(job)
    listed = client.jobs.list()
    found = list(islice(listed, 1)) if job == LAST else [one for one in listed if one.id.startswith(job)]
    if not found:
        raise NotFound(f"no job {job!r}: `counterpose jobs list` lists the jobs")
    if len(found) > 1:
        raise InvalidRequest(f"{job!r} begins the ids of {len(found)} jobs; give more digits")
    return client.jobs.get(found[0].id)
