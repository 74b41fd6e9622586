"""A client whose runs become jobs of a Ray cluster; all else is the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar, get_args

from counterpose._calls import Call
from counterpose._run_calls import RUNS
from counterpose._sync.client import Client
from counterpose._sync.jobs import POLL_S, ClusterJob, JobRequest
from counterpose_core.contract.base import IDEMPOTENCY_HEADER
from counterpose_core.contract.jobs import Job
from counterpose_core.errors import InternalError

T = TypeVar("T")

_REQUESTS = get_args(JobRequest)


class PlacedClient(Client):
    """Creates runs as jobs: the call that creates a run submits the job and returns the run that it made.

    Args:
        base_url: the gateway's address, as for `Client`.
        cluster: name of one of the gateway's clusters.
        workers: workers to start for each run.
        on_job: is given each job, when it was submitted and whenever it was looked at while it has no run.
    """

    def __init__(
        self, base_url: str | None, *, cluster: str, workers: int, on_job: Callable[[Job], None]
    ) -> None:
        super().__init__(base_url)
        self._cluster, self._workers, self._on_job = cluster, workers, on_job
        self._job: ClusterJob | None = None

    def send(self, call: Call[T]) -> T:
        """Send ``call``; one that creates a run submits a job instead."""
        # An estimate has the same body, but creates nothing.
        if not isinstance(call.body, _REQUESTS) or call.path.endswith("/estimate"):
            return super().send(call)
        run = self._submitted(call.body, call.headers.get(IDEMPOTENCY_HEADER))
        return super().send(Call("GET", f"{RUNS}/{run}", call.parse))

    def look(self) -> None:
        """Look at the job.

        Raises:
            CounterposeError: it has failed, whatever its run still does.
        """
        if self._job is not None:
            _require_going_on(self._job.refresh())

    def _submitted(self, request: JobRequest, key: str | None) -> str:
        """Submit a job and wait until it has made its run: its dataset may have to be imported first."""
        self._job = self.jobs.submit(
            request, cluster=self._cluster, workers=self._workers, idempotency_key=key
        )
        self._on_job(self._job.job)
        while self._job.job.run is None:
            time.sleep(POLL_S)
            self.look()
            self._on_job(self._job.job)
        return self._job.job.run


def _require_going_on(handle: ClusterJob) -> None:
    job = handle.job
    if job.state == "failed":
        raise InternalError(f"job {job.id} has failed") if job.problem is None else job.problem.error()
    if job.run is None and handle.ended:
        raise InternalError(f"job {job.id} is {job.state} and has made no run")
