"""One look at a job: make its run, submit an attempt, judge whether the attempt lives, end the job.

Whether the run has ended, and whether an attempt lives, is asked of the ledger. Ray is asked only about an
attempt that has been quiet: it may take a job to run that is dead, or have forgotten one that is not. A new
attempt goes on with the same run; what an old one still does is harmless, because items are leased.

The launcher: leases jobs that are due, and looks after each; any number of gateways may run one.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from counterpose_core.backoff import Backoff
from counterpose_core.contract.base import Problem
from counterpose_core.contract.runs import Run
from counterpose_core.errors import (
    BackendUnavailable,
    CounterposeError,
    DatasetNotReady,
    InternalError,
    LeaseLost,
    NotFound,
    RunNotCancellable,
)
from counterpose_core.types import FINAL_RUN_STATES, JobState, RunState
from counterpose_gateway.jobs.ray_cluster import Clusters, RayCluster, Submission
from counterpose_gateway.records.jobs import LeasedAttempt, LeasedJob

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger
    from counterpose_gateway.ledger.jobs import Jobs

LOOK_SECONDS = 3.0
"""How often a job is looked at that goes well."""
QUIET_SECONDS = 15.0
"""Ray is asked about an attempt of which nobody has reported for so long; its processes do so every 4 s."""
LOST_SECONDS = 90.0
"""An attempt that Ray calls running is given up after so long without a report; a start takes about 15 s."""
END_SECONDS = 60.0
"""How long the processes of an attempt have to end by themselves when the run has ended."""
MOST_FRUITLESS = 5
"""Attempts in a row without any progress of the run after which a job is given up."""
PAUSE = Backoff(first_s=2.0, longest_s=120.0)
"""Before the attempt that follows one that was lost."""

Result = TypeVar("Result")


class _Done(Enum):
    DONE = "done"


DONE = _Done.DONE
"""The look has done all that the job needs now."""

_ENDS: dict[RunState, JobState] = {
    "completed": "completed", "completed_with_failures": "completed", "failed": "failed",
    "cancelled": "cancelled",
}  # fmt: skip
_logger = logging.getLogger(__name__)
_jitter = random.Random()


@dataclass(frozen=True, kw_only=True)
class WorkerCost:
    """CPUs that Ray reserves for one worker, and for the driver that starts the workers."""

    worker_cpus: float
    driver_cpus: float


class JobLook:
    """Looks after jobs; ``make_run`` makes a job's run, once however often it is called."""

    def __init__(
        self,
        ledger: Ledger,
        clusters: Clusters,
        make_run: Callable[[LeasedJob], Awaitable[Run]],
        cost: WorkerCost,
    ) -> None:
        self._ledger = ledger
        self._clusters = clusters
        self._make_run = make_run
        self._cost = cost

    async def look(self, job: LeasedJob) -> None:
        """Do what a job needs now, and give its lease back.

        Raises:
            CounterposeError: its cluster, or a service, is out of reach; the next look goes on from here.
        """
        run = await self._make(job) if job.run_id is None else await self._known(job, job.run_id)
        if run is DONE:
            return
        if run is not None and run.state in FINAL_RUN_STATES:
            await self._finish(job, run)
        elif run is not None and job.state == "cancelling":
            await self._cancel(job, run)
        elif job.attempt is None:
            await self._submit(job, await _ask(self._ledger.jobs.claim_attempt, job))
        elif not job.attempt.submitted:
            # Whoever claimed it may have been killed before or after the cluster took it: that takes it once.
            await self._submit(job, job.attempt)
        else:
            await self._watch(job, job.attempt)

    async def _known(self, job: LeasedJob, run_id: str) -> Run | _Done:
        try:
            return await _ask(self._ledger.runs.get, run_id)
        except NotFound as error:
            await _ask(self._ledger.jobs.end, job, "failed", Problem.of(error))
            return DONE

    async def _make(self, job: LeasedJob) -> Run | _Done | None:
        """Make the job's run, or end the job; None while the dataset is imported, which its workers do."""
        if job.state == "cancelling":
            await self._end_without_run(job, "cancelled")
            return DONE
        try:
            run = await self._make_run(job)
        except DatasetNotReady:
            return None
        except CounterposeError as error:
            if error.retryable:
                raise
            await self._end_without_run(job, "failed", Problem.of(error))
            return DONE
        await _ask(self._ledger.jobs.set_run, job, run.id)
        await _ask(self._ledger.jobs.put_off, job, 0.0)
        return DONE

    async def _end_without_run(self, job: LeasedJob, state: JobState, problem: Problem | None = None) -> None:
        if job.attempt is not None:
            await self._runs_on(job, job.attempt, stop=True)
            await _ask(self._ledger.jobs.end_attempt, job, job.attempt, f"the job is {state} without a run")
        await _ask(self._ledger.jobs.end, job, state, problem)

    async def _cancel(self, job: LeasedJob, run: Run) -> None:
        if run.state != "cancelling":
            try:
                # Whoever cancelled the job was stopped before its run.
                await _ask(self._ledger.runs.cancel, run.id)
            except RunNotCancellable:
                _logger.info("run %s of job %s has ended by itself", run.id, job.id)
        await _ask(self._ledger.jobs.put_off, job, 0.5)

    async def _submit(self, job: LeasedJob, attempt: LeasedAttempt) -> None:
        cluster = self._clusters.named(job.cluster)
        # The cluster may be another one by now, at the same address.
        await cluster.check()
        await cluster.submit(self._submission(job, attempt))
        await _ask(self._ledger.jobs.note_submitted, job, attempt)
        await _ask(self._ledger.jobs.put_off, job, LOOK_SECONDS)

    def _submission(self, job: LeasedJob, attempt: LeasedAttempt) -> Submission:
        return Submission(
            submission_id=attempt.submission_id,
            entrypoint=f"python -m counterpose_services.jobs.work --job {job.id} --attempt {attempt.number} "
            f"--workers {job.workers} --cpus {self._cost.worker_cpus:g}",
            metadata={"counterpose_job": job.id, "counterpose_run": job.run_id or ""},
            cpus=self._cost.driver_cpus,
        )

    async def _watch(self, job: LeasedJob, attempt: LeasedAttempt) -> None:
        if attempt.seen and job.state == "queued":
            await _ask(self._ledger.jobs.mark_working, job)
        if attempt.quiet_s < QUIET_SECONDS:
            room = f"no worker has started yet: each needs {self._cost.worker_cpus:g} CPUs of the cluster"
            await _ask(self._ledger.jobs.put_off, job, LOOK_SECONDS, "" if attempt.seen else room)
            return
        cluster = self._clusters.named(job.cluster)
        found = await cluster.job(attempt.submission_id)
        if found is None:
            await self._lost(job, attempt, "the cluster does not know it: its head was started anew")
        elif found.ended:
            await self._lost(job, attempt, f"it ended on the cluster as {found.status}: {found.message}")
        elif found.status == "PENDING":
            await _ask(
                self._ledger.jobs.put_off,
                job,
                LOOK_SECONDS,
                f"the cluster has not started it: {found.message}",
            )
        elif attempt.quiet_s > LOST_SECONDS:
            await _stop(cluster, attempt)
            await self._lost(job, attempt, f"nothing of it has reported for {attempt.quiet_s:.0f} s")
        else:
            quiet = f"nothing of attempt {attempt.number} has reported for {attempt.quiet_s:.0f} s"
            await _ask(self._ledger.jobs.put_off, job, LOOK_SECONDS, quiet)

    async def _lost(self, job: LeasedJob, attempt: LeasedAttempt, why: str) -> None:
        _logger.warning("attempt %d of job %s is lost: %s", attempt.number, job.id, why)
        fruitless = await _ask(self._ledger.jobs.end_attempt, job, attempt, why)
        if fruitless >= MOST_FRUITLESS:
            error = BackendUnavailable(
                f"{fruitless} attempts in a row got nowhere, the last one because {why}; look at the log of "
                f"{attempt.submission_id!r} on the cluster {job.cluster!r}, then submit the run again"
            )
            await _ask(self._ledger.jobs.end, job, "failed", Problem.of(error))
            return
        pause = PAUSE.pause(max(1, fruitless), _jitter)
        message = f"attempt {attempt.number} was lost: {why}; the next one follows"
        await _ask(self._ledger.jobs.put_off, job, pause, message)

    async def _finish(self, job: LeasedJob, run: Run) -> None:
        if job.attempt is not None:
            ended_s = 0.0 if run.ended_at is None else (self._ledger.now() - run.ended_at).total_seconds()
            if await self._runs_on(job, job.attempt, stop=ended_s > END_SECONDS):
                await _ask(self._ledger.jobs.put_off, job, 1.0, "its workers have not ended yet")
                return
            await _ask(self._ledger.jobs.end_attempt, job, job.attempt, f"the run is {run.state}")
        problem = run.problem
        if run.state == "failed" and problem is None:
            problem = Problem.of(InternalError(f"no item of run {run.id} came to an end"))
        await _ask(self._ledger.jobs.end, job, _ENDS[run.state], problem)

    async def _runs_on(self, job: LeasedJob, attempt: LeasedAttempt, *, stop: bool) -> bool:
        """Return whether an attempt still runs that may yet end by itself; one that is overdue is stopped."""
        try:
            cluster = self._clusters.named(job.cluster)
            found = await cluster.job(attempt.submission_id)
        except CounterposeError as error:
            # The run has ended, and so will each worker that looks into the ledger.
            _logger.warning("job %s: %s", job.id, error.detail)
            return False
        if found is None or found.ended:
            return False
        if stop:
            await _stop(cluster, attempt)
        return not stop


async def _ask(call: Callable[..., Result], *args: object) -> Result:
    return await asyncio.to_thread(call, *args)


async def _stop(cluster: RayCluster, attempt: LeasedAttempt) -> None:
    try:
        await cluster.stop(attempt.submission_id)
    except CounterposeError as error:
        _logger.warning("%s is not stopped: %s", attempt.submission_id, error.detail)


IDLE_SECONDS = 1.0
"""How often the ledger is asked for a job to look at."""
LEASE_SECONDS = 90.0
"""Longer than a look takes: four calls to a cluster that does not answer."""
AWAY_SECONDS = 10.0
"""Before a job is looked at again whose cluster, or whose run's service, does not answer."""
LOOKS_AT_ONCE = 16


class Launcher:
    """Looks at jobs of the named clusters when they are due."""

    def __init__(self, jobs: Jobs, looker: JobLook, clusters: tuple[str, ...]) -> None:
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
