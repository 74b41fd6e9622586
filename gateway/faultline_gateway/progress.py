"""Progress of a run: as server-sent events, and as one answer that waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from faultline_core.contract.runs import Run, RunEvent
from faultline_core.types import FINAL_RUN_STATES
from faultline_gateway.ledger import Ledger

LOOK_SECONDS = 0.5
HEARTBEAT_SECONDS = 15.0
LONGEST_WAIT_SECONDS = 60.0


async def wait_for_end(ledger: Ledger, run_id: str, seconds: float) -> Run:
    """Return the run when it has ended, or as it stands after ``seconds``."""
    # The ledger is asked again and again: whoever ends the run may be another process on another machine.
    deadline = time.monotonic() + seconds
    run = await asyncio.to_thread(ledger.run, run_id)
    while run.state not in FINAL_RUN_STATES and time.monotonic() < deadline:
        await asyncio.sleep(min(LOOK_SECONDS, max(0.0, deadline - time.monotonic())))
        run = await asyncio.to_thread(ledger.run, run_id)
    return run


def first_event_id(ledger: Ledger, run_id: str, last_seen: int | None) -> int:
    """Return the id after which a stream begins: what was seen last, or just before the newest event.

    Raises:
        NotFound: there is no such run.
    """
    newest = ledger.last_event(run_id).id
    return newest - 1 if last_seen is None else min(last_seen, newest)


async def event_stream(
    ledger: Ledger, run_id: str, *, after: int, heartbeat: float = HEARTBEAT_SECONDS
) -> AsyncIterator[str]:
    """Yield the run's events with larger ids than ``after`` as they come, until the run has ended."""
    silent_since = time.monotonic()
    ended = False
    while not ended:
        events = await asyncio.to_thread(ledger.events, run_id, after=after)
        for event in events:
            yield _frame(event)
            after, silent_since = event.id, time.monotonic()
        ended = await _has_ended(ledger, run_id, after) if not events else False
        if not events and not ended:
            if time.monotonic() - silent_since >= heartbeat:
                yield ": heartbeat\n\n"
                silent_since = time.monotonic()
            await asyncio.sleep(min(LOOK_SECONDS, heartbeat))


async def _has_ended(ledger: Ledger, run_id: str, after: int) -> bool:
    last = await asyncio.to_thread(ledger.last_event, run_id)
    return last.state in FINAL_RUN_STATES and last.id <= after


def _frame(event: RunEvent) -> str:
    return f"id: {event.id}\nevent: progress\ndata: {event.model_dump_json()}\n\n"
