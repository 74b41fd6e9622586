"""The launcher: leases jobs that are due, and looks after each; any number of gateways may run one."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from counterpose_core.errors import CounterposeError, LeaseLost
from counterpose_gateway.records.jobs import LeasedJob

if TYPE_CHECKING:
    from counterpose_gateway.ledger.jobs import Jobs

IDLE_SECONDS = 1.0
"""How often the ledger is asked for a job to look at."""
LEASE_SECONDS = 90.0
"""Longer than a look takes: four calls to a cluster that does not answer."""
AWAY_SECONDS = 10.0
"""Before a job is looked at again whose cluster, or whose run's service, does not answer."""
LOOKS_AT_ONCE = 16

_logger = logging.getLogger(__name__)


class Looker(Protocol):
    """Whatever looks after one job; `counterpose_gateway.jobs.look.JobLook` is one."""

    async def look(self, job: LeasedJob) -> None:
        """Do what a job needs now."""
        ...


class Launcher:
    """Looks at jobs of the named clusters when they are due."""

    def __init__(self, jobs: Jobs, looker: Looker, clusters: tuple[str, ...]) -> None:
        self._jobs = jobs
        self._looker = looker
        self._clusters = clusters

    async def keep(self) -> None:
        """Look after jobs until cancelled."""
        looks: set[asyncio.Task[None]] = set()
        try:
            while True:
                job = await self._next() if len(looks) < LOOKS_AT_ONCE else None
                if job is None:
                    await asyncio.sleep(IDLE_SECONDS)
                    continue
                task = asyncio.create_task(self.look(job))
                looks.add(task)
                task.add_done_callback(looks.discard)
        finally:
            for task in looks:
                task.cancel()

    async def look(self, job: LeasedJob) -> None:
        """Look at a leased job; what is out of reach is told on the job, and tried again."""
        try:
            await self._looker.look(job)
        except LeaseLost:
            # Cancelled, or another gateway looks after it by now.
            return
        except CounterposeError as error:
            _logger.warning("job %s: %s", job.id, error.detail)
            await self._put_off(job, error.detail)
        # A defect met at one job must not end the looking at all others.
        except Exception as error:
            _logger.exception("job %s could not be looked at", job.id)
            await self._put_off(job, f"unexpected {type(error).__name__}; see the gateway's log")

    async def _next(self) -> LeasedJob | None:
        try:
            return await asyncio.to_thread(self._jobs.lease, self._clusters, LEASE_SECONDS)
        except CounterposeError as error:
            _logger.warning("no job can be looked at: %s", error.detail)
            return None

    async def _put_off(self, job: LeasedJob, message: str) -> None:
        try:
            await asyncio.to_thread(self._jobs.put_off, job, AWAY_SECONDS, message)
        except CounterposeError as error:
            _logger.warning("the lease of job %s runs out by itself: %s", job.id, error.detail)
