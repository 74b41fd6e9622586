"""A job on a Ray cluster by its id: wait for its run, follow both, cancel them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from typing import Self

from counterpose._calls import Call, idempotency_headers, reading, segment
from counterpose._transport_protocol import AsyncSender, Sender
from counterpose_core.contract.bug_hunts import BugHuntCreate
from counterpose_core.contract.gates import GateCreate
from counterpose_core.contract.jobs import (
    BugHuntOfJob,
    GateOfJob,
    Job,
    JobCreate,
    JobList,
    RunOfJob,
    ShiftBenchmarkOfJob,
    StressTestOfJob,
)
from counterpose_core.contract.shift_benchmarks import ShiftBenchmarkCreate
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.types import FINAL_JOB_STATES

ROOT = "/v1/jobs"
POLL_S = 2.0
"""Seconds between two looks at a job: the gateway itself looks at it as often."""

JobRequest = StressTestCreate | ShiftBenchmarkCreate | BugHuntCreate | GateCreate
"""The runs that can be jobs, as their own routes take them."""


def run_of_job(request: JobRequest) -> RunOfJob:
    """Return the run of a job, told apart by its kind."""
    match request:
        case StressTestCreate():
            return StressTestOfJob(kind="stress-test", request=request)
        case ShiftBenchmarkCreate():
            return ShiftBenchmarkOfJob(kind="shift-benchmark", request=request)
        case BugHuntCreate():
            return BugHuntOfJob(kind="bug-hunt", request=request)
        case GateCreate():
            return GateOfJob(kind="gate", request=request)


def submit_call(body: JobCreate, key: str | None) -> Call[Job]:
    """``POST /v1/jobs``; the idempotency key makes it safe to send again."""
    return Call(method="POST", path=ROOT, body=body, parse=reading(Job), headers=idempotency_headers(key))


def get_call(job_id: str) -> Call[Job]:
    """``GET /v1/jobs/{id}``; a job goes on without the client, so it is retried for minutes."""
    return Call(method="GET", path=f"{ROOT}/{segment(job_id)}", parse=reading(Job), patient=True)


def list_call(after: str | None) -> Call[JobList]:
    """``GET /v1/jobs``."""
    params: dict[str, str | int | float] = {} if after is None else {"after": after}
    return Call(method="GET", path=ROOT, params=params, parse=reading(JobList))


def cancel_call(job_id: str) -> Call[Job]:
    """``POST /v1/jobs/{id}:cancel``; a second one is refused, so it is not retried blindly."""
    return Call(method="POST", path=f"{ROOT}/{segment(job_id)}:cancel", parse=reading(Job), safe=False)


class _Handle:
    """What both handles know without a request."""

    def __init__(self, job: Job) -> None:
        self.job = job

    @property
    def id(self) -> str:
        """The job's id, which ``get`` takes."""
        return self.job.id

    @property
    def ended(self) -> bool:
        """Whether the job had ended when it was last fetched."""
        return self.job.state in FINAL_JOB_STATES

    def _pauses(self, timeout: float | None) -> Iterator[float]:
        left = math.inf if timeout is None else timeout
        while left > 0 and not self.ended:
            yield min(POLL_S, left)
            left -= POLL_S

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.job.id!r}, state={self.job.state!r})"


class ClusterJob(_Handle):
    """A job, followed by blocking calls; ``client.runs.get(job.job.run)`` is its run."""

    def __init__(self, sender: Sender, job: Job) -> None:
        super().__init__(job)
        self._sender = sender

    def refresh(self) -> Self:
        """Fetch the job's current state."""
        self.job = self._sender.send(get_call(self.id))
        return self

    def wait(self, timeout: float | None = None) -> Self:
        """Block until the job has ended, at most for ``timeout`` seconds."""
        for pause in self._pauses(timeout):
            time.sleep(pause)
            self.refresh()
        return self

    def cancel(self) -> Self:
        """Cancel the job and its run; finished items are kept, and the workers on the cluster end."""
        self.job = self._sender.send(cancel_call(self.id))
        return self


class AsyncClusterJob(_Handle):
    """A job, followed by awaitable calls; as `ClusterJob`."""

    def __init__(self, sender: AsyncSender, job: Job) -> None:
        super().__init__(job)
        self._sender = sender

    async def refresh(self) -> Self:
        """Fetch the job's current state."""
        self.job = await self._sender.send(get_call(self.id))
        return self

    async def wait(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - it is the time of many calls
    ) -> Self:
        """Wait until the job has ended, at most for ``timeout`` seconds."""
        for pause in self._pauses(timeout):
            await asyncio.sleep(pause)
            await self.refresh()
        return self

    async def cancel(self) -> Self:
        """Cancel the job and its run; as `ClusterJob.cancel`."""
        self.job = await self._sender.send(cancel_call(self.id))
        return self
