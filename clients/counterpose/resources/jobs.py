"""``client.jobs``: runs whose workers a Ray cluster starts; nothing of Ray is imported here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from counterpose._cluster_job import (
    AsyncClusterJob,
    ClusterJob,
    JobRequest,
    get_call,
    list_call,
    run_of_job,
    submit_call,
)
from counterpose._paging import pages, pages_async
from counterpose._transport_protocol import AsyncSender, Sender
from counterpose_core.contract.jobs import Job, JobCreate


class Jobs:
    """``/v1/jobs``, with blocking calls."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def submit(
        self, request: JobRequest, *, cluster: str, workers: int, idempotency_key: str | None = None
    ) -> ClusterJob:
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
        body = JobCreate(cluster=cluster, workers=workers, run=run_of_job(request))
        return ClusterJob(self._sender, self._sender.send(submit_call(body, idempotency_key)))

    def get(self, job_id: str) -> ClusterJob:
        """Return a job by its id."""
        return ClusterJob(self._sender, self._sender.send(get_call(job_id)))

    def list(self) -> Iterator[Job]:
        """Iterate over all jobs, newest first."""
        for page in pages(self._sender, list_call):
            yield from page.jobs

    def cancel(self, job_id: str) -> ClusterJob:
        """Cancel a job and its run.

        Raises:
            RunNotCancellable: it has ended.
        """
        return self.get(job_id).cancel()


class AsyncJobs:
    """``/v1/jobs``, with awaitable calls; as `Jobs`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def submit(
        self, request: JobRequest, *, cluster: str, workers: int, idempotency_key: str | None = None
    ) -> AsyncClusterJob:
        """Submit a run to a cluster; as `Jobs.submit`."""
        body = JobCreate(cluster=cluster, workers=workers, run=run_of_job(request))
        return AsyncClusterJob(self._sender, await self._sender.send(submit_call(body, idempotency_key)))

    async def get(self, job_id: str) -> AsyncClusterJob:
        """Return a job by its id."""
        return AsyncClusterJob(self._sender, await self._sender.send(get_call(job_id)))

    async def list(self) -> AsyncIterator[Job]:
        """Iterate over all jobs, newest first."""
        async for page in pages_async(self._sender, list_call):
            for job in page.jobs:
                yield job

    async def cancel(self, job_id: str) -> AsyncClusterJob:
        """Cancel a job and its run; as `Jobs.cancel`."""
        return await (await self.get(job_id)).cancel()
