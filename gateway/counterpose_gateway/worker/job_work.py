"""What makes a worker a job's: it takes the job's run, reports that it lives, and ends with the job."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterpose_core.errors import CounterposeError, LedgerDamaged
from counterpose_gateway.imports.importer import Importer
from counterpose_gateway.records.jobs import JobNews

if TYPE_CHECKING:
    from counterpose_gateway.ledger.jobs import Jobs

NEWS_SECONDS = 2.0
"""How often a worker asks whether it is still needed; it reports at every second or third time."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class JobPart:
    """The attempt of a job that a process belongs to."""

    job_id: str
    attempt: int


async def run_of(
    jobs: Jobs, part: JobPart, stop: asyncio.Event, importer_of: Callable[[str], Importer]
) -> JobNews | None:
    """Return what is told of a job when its run is made, or None if the part is not needed by then.

    Until then its dataset may still be imported: ``importer_of`` a dataset's name takes part in that.
    """
    importing: asyncio.Task[None] | None = None
    try:
        while not stop.is_set():
            news = await _news(jobs, part, works=True)
            if news is not None and (news.run_id is not None or not news.needed):
                return news if news.needed else None
            if importing is None and news is not None and news.dataset is not None:
                importing = asyncio.create_task(_import(importer_of(news.dataset), stop))
            await _pause(stop)
        return None
    finally:
        if importing is not None:
            importing.cancel()
            await asyncio.gather(importing, return_exceptions=True)


async def _import(importer: Importer, stop: asyncio.Event) -> None:
    while not stop.is_set():
        try:
            leased = await importer.lease()
        except CounterposeError as error:
            _logger.warning("nothing can be imported: %s", error.detail)
            leased = None
        if leased is None:
            await _pause(stop)
        else:
            await importer.work(leased)


async def _pause(stop: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), NEWS_SECONDS)


async def until_not_needed(jobs: Jobs, part: JobPart, *, works: bool = True) -> None:
    """Report that the part lives until its job has ended, or another attempt has taken its place."""
    needed = True
    while needed:
        await asyncio.sleep(NEWS_SECONDS)
        news = await _news(jobs, part, works=works)
        needed = news is None or news.needed


async def _news(jobs: Jobs, part: JobPart, *, works: bool) -> JobNews | None:
    try:
        return await asyncio.to_thread(jobs.news, part.job_id, part.attempt, works=works)
    except LedgerDamaged:
        raise
    except CounterposeError as error:
        # A database that is started anew must not end a job.
        _logger.warning("the ledger is not at hand: %s", error.detail)
        return None
