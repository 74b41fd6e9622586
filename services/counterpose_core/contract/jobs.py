"""Bodies of ``/v1/jobs``: a run whose workers a Ray cluster starts, as many as asked for."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from counterpose_core.contract.base import ClientBody, Problem, ResponseBody
from counterpose_core.contract.bug_hunts import BugHuntCreate
from counterpose_core.contract.gates import GateCreate
from counterpose_core.contract.shift_benchmarks import ShiftBenchmarkCreate
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.types import JobState, Name

MOST_WORKERS = 1024
"""Each is a process with its own connections to the database, of which PostgreSQL serves some thousands."""


class StressTestOfJob(ClientBody):
    """A stress test as the run of a job."""

    kind: Literal["stress-test"]
    """Kind of the run."""
    request: StressTestCreate
    """The run, as `POST /v1/stress-tests` takes it."""


class ShiftBenchmarkOfJob(ClientBody):
    """A shift benchmark as the run of a job."""

    kind: Literal["shift-benchmark"]
    """Kind of the run."""
    request: ShiftBenchmarkCreate
    """The run, as `POST /v1/shift-benchmarks` takes it."""


class BugHuntOfJob(ClientBody):
    """A bug hunt as the run of a job."""

    kind: Literal["bug-hunt"]
    """Kind of the run."""
    request: BugHuntCreate
    """The run, as `POST /v1/bug-hunts` takes it."""


class GateOfJob(ClientBody):
    """A gate as the run of a job."""

    kind: Literal["gate"]
    """Kind of the run."""
    request: GateCreate
    """The run, as `POST /v1/gates` takes it."""


RunOfJob = Annotated[
    StressTestOfJob | ShiftBenchmarkOfJob | BugHuntOfJob | GateOfJob, Field(discriminator="kind")
]


class JobCreate(ClientBody):
    """``POST /v1/jobs``: a run, and the workers that a Ray cluster shall start for it."""

    cluster: Name
    """Name of the cluster, one of those that the gateway was given."""
    workers: int = Field(ge=1, le=MOST_WORKERS)
    """Workers to start, each an actor with a process of its own."""
    run: RunOfJob
    """The run: its kind, and the request that creates it."""


class JobAttempt(ResponseBody):
    """One submission of a job to its cluster; each further attempt goes on with the same run."""

    number: int = Field(ge=1)
    """Number of the attempt in its job, from 1."""
    submission_id: str
    """Id of the attempt on the cluster, as Ray lists it."""
    created_at: dt.datetime
    """When the attempt was decided on, in UTC."""
    submitted_at: dt.datetime | None = None
    """When the cluster had accepted it, in UTC, or null if that is not known yet."""
    seen_at: dt.datetime | None = None
    """When a worker of it reported last, in UTC, or null if none has."""
    ended_at: dt.datetime | None = None
    """When it was given up or not needed any more, in UTC, or null."""
    detail: str | None = None
    """Why it ended, or null if it has not."""


class Job(ResponseBody):
    """A Ray job: the run that it works on, and how its workers fare."""

    id: str
    """Id of the job."""
    cluster: str
    """Name of its cluster."""
    workers: int
    """Workers that it asks the cluster for."""
    kind: str
    """Kind of its run."""
    state: JobState
    """State of the job: `in_progress` while workers report, `completed` when its run has completed, and
    `failed` when the run has failed or attempt after attempt got nowhere."""
    run: str | None = None
    """Id of its run, or null until it is made."""
    created_at: dt.datetime
    """When the job was created, in UTC."""
    started_at: dt.datetime | None = None
    """When a worker reported first, in UTC, or null if none has."""
    ended_at: dt.datetime | None = None
    """When the job ended, in UTC, or null if it has not."""
    message: str = ""
    """What the job waits for; empty if for nothing but its run."""
    problem: Problem | None = None
    """Why the job failed, or null if it did not."""
    attempts: list[JobAttempt]
    """Its submissions to the cluster, the first one first."""


class JobList(ResponseBody):
    """A page of jobs, newest first."""

    jobs: list[Job]
    """The jobs of this page."""
    after: str | None = None
    """Cursor of the next page, or null on the last page."""
