"""A gateway with a Ray cluster whose jobs API is a fake, and a launcher that looks when the test says so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from counterpose_core.contract.jobs import Job
from counterpose_gateway.http.request_head import Caller
from counterpose_gateway.jobs.look import LEASE_SECONDS, JobLook, Launcher, WorkerCost
from counterpose_gateway.jobs.submission import make_run
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.jobs import LeasedJob
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import Clock
from fakes.ray_jobs_api import NAME, FakeRayJobs, clusters_of

REQUEST: Mapping[str, Any] = {"dataset": "demo", "classifiers": ["steady"], "seed": 1, "confirm": False}
LONG = 200.0
"""Longer than any pause before an attempt."""


@dataclass
class Jobs:
    """A gateway with a cluster, on a clock that the test moves."""

    gateway: FakeGateway
    ray: FakeRayJobs
    launcher: Launcher
    clock: Clock

    @property
    def ledger(self) -> Ledger:
        """The gateway's ledger."""
        return self.gateway.ledger

    async def post(self, key: str | None = None, **changes: Any) -> httpx.Response:
        """Ask for a job."""
        run = {"kind": "stress-test", "request": REQUEST}
        body = {"cluster": NAME, "workers": 2, "run": run} | changes
        headers = {} if key is None else {"idempotency-key": key}
        return await self.gateway.http.post("/v1/jobs", json=body, headers=headers)

    async def submit(self) -> Job:
        """Make a job, and look at it until its first attempt is submitted."""
        job = Job.model_validate((await self.post()).json())
        await self.look()
        return self.ledger.jobs.get(job.id)

    async def look(self, passing: float = 0.0) -> None:
        """Look at every job that is due after so many seconds."""
        self.clock.now += passing
        while (leased := self.lease()) is not None:
            await self.launcher.look(leased)

    def lease(self) -> LeasedJob | None:
        """Lease a job that is due, as a launcher does."""
        return self.ledger.jobs.lease((NAME,), LEASE_SECONDS)

    def report(self, job: Job) -> None:
        """Let a worker of the newest attempt report."""
        assert self.ledger.jobs.news(job.id, job.attempts[-1].number).needed

    async def work_off(self) -> None:
        """Work until nothing can be leased."""
        await self.gateway.worker().work_off()


@asynccontextmanager
async def jobs_of(folder: Path) -> AsyncIterator[Jobs]:
    """Open a gateway with the dataset ``demo`` and one cluster."""
    clock, ray = Clock(), FakeRayJobs()
    clusters = clusters_of(ray, folder)
    async with fake_gateway(folder, clock, clusters=clusters, import_from=("memory://",)) as gateway:
        await gateway.upload("demo", per_class=1)
        context = gateway.http._transport.app.state.context  # type: ignore[attr-defined]  # of httpx's ASGI

        async def made(job: LeasedJob) -> Any:
            return await make_run(job, context.of(Caller(job.tenant)))

        look = JobLook(gateway.ledger, clusters, made, WorkerCost(worker_cpus=1.0, driver_cpus=0.1))
        yield Jobs(gateway, ray, Launcher(gateway.ledger.jobs, look, (NAME,)), clock)
