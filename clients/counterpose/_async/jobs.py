"""``client.jobs``: runs whose workers a Ray cluster starts; nothing of Ray is imported here."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any, Self, get_args

from counterpose._async.paging import pages
from counterpose._calls import Call, idempotency_headers, reading, segment
from counterpose._transport_protocol import AsyncSender
from counterpose_core.contract.bug_hunts import BugHuntCreate
from counterpose_core.contract.field_errors import checked
from counterpose_core.contract.gates import GateCreate
from counterpose_core.contract.jobs import Job, JobCreate, JobList, RunOfJob
from counterpose_core.contract.shift_benchmarks import ShiftBenchmarkCreate
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.types import FINAL_JOB_STATES

ROOT = "/v1/jobs"
POLL_S = 2.0
"""Seconds between two looks at a job: the gateway itself looks at it as often."""

JobRequest = StressTestCreate | ShiftBenchmarkCreate | BugHuntCreate | GateCreate
"""The runs that can be jobs, as their own routes take them."""


def _run_of_job(request: JobRequest) -> RunOfJob:
    """Return the run of a job: the body that has such a request, with its kind."""
    bodies: tuple[type[Any], ...] = get_args(get_args(RunOfJob)[0])
    (body,) = (each for each in bodies if isinstance(request, each.model_fields["request"].annotation))
    (kind,) = get_args(body.model_fields["kind"].annotation)
    run: RunOfJob = body(kind=kind, request=request)
    return run


class AsyncClusterJob:
    """A job, followed by awaitable calls; ``client.runs.get(job.job.run)`` is its run."""

    def __init__(self, sender: AsyncSender, job: Job) -> None:
        self._sender = sender
        self.job = job

    @property
    def id(self) -> str:
        """The job's id, which ``get`` takes."""
        return self.job.id

    @property
    def ended(self) -> bool:
        """Whether the job had ended when it was last fetched."""
        return self.job.state in FINAL_JOB_STATES

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.job.id!r}, state={self.job.state!r})"

    async def refresh(self) -> Self:
        """Fetch the job's current state."""
        self.job = await self._sender.send(_get_call(self.id))
        return self

    async def wait(self, timeout: float | None = None) -> Self:
        """Wait until the job has ended, at most for ``timeout`` seconds."""
        left = math.inf if timeout is None else timeout
        while left > 0 and not self.ended:
            await asyncio.sleep(min(POLL_S, left))
            left -= POLL_S
            await self.refresh()
        return self

    async def cancel(self) -> Self:
        """Cancel the job and its run; finished items are kept, and the workers on the cluster end."""
        path = f"{ROOT}/{segment(self.id)}/cancel"
        # A second one is refused, so it is not retried blindly.
        call = Call("POST", path, reading(Job), safe=False)
        self.job = await self._sender.send(call)
        return self


class AsyncJobs:
    """``/v1/jobs``, with awaitable calls."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def submit(
        self, request: JobRequest, *, cluster: str, workers: int, idempotency_key: str | None = None
    ) -> AsyncClusterJob:
        """Submit a run to a cluster; it continues whether or not you wait for it.

        Args:
            request: the run, such as ``StressTestCreate(dataset=..., classifiers=[...], seed=0)``.
            cluster: name of one of the gateway's clusters.
            workers: how many workers the cluster shall start.
            idempotency_key: makes a repeated call return the first job.

        Raises:
            InvalidRequest: the gateway has no such cluster, or the run cannot be a job.
            BackendUnavailable: the cluster does not answer; nothing was submitted.
            ClusterRefused: it refuses the gateway's token, or runs another version of Ray.
        """
        fields = {"cluster": cluster, "workers": workers, "run": _run_of_job(request)}
        body = checked(JobCreate, fields)
        headers = idempotency_headers(idempotency_key)
        call = Call("POST", ROOT, reading(Job), body=body, headers=headers)
        return AsyncClusterJob(self._sender, await self._sender.send(call))

    async def get(self, job_id: str) -> AsyncClusterJob:
        """Return a job by its id."""
        return AsyncClusterJob(self._sender, await self._sender.send(_get_call(job_id)))

    async def list(self) -> AsyncIterator[Job]:
        """Iterate over all jobs, newest first."""
        async for page in pages(self._sender, _list_call):
            for job in page.jobs:
                yield job

    async def cancel(self, job_id: str) -> AsyncClusterJob:
        """Cancel a job and its run.

        Raises:
            RunNotCancellable: it has ended.
        """
        job = await self.get(job_id)
        return await job.cancel()


def _get_call(job_id: str) -> Call[Job]:
    # A job goes on without the client, so the call is retried for minutes.
    return Call("GET", f"{ROOT}/{segment(job_id)}", reading(Job), patient=True)


def _list_call(after: str | None) -> Call[JobList]:
    params: dict[str, str | int | float] = {} if after is None else {"after": after}
    return Call("GET", ROOT, reading(JobList), params=params)
