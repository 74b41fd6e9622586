"""Follow a run: its events as they occur, one answer that waits for the end, its results as JSON lines."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from sse_starlette import EventSourceResponse, ServerSentEvent

from faultline_core.contract.runs import Run, RunItem
from faultline_core.types import FINAL_ITEM_STATES, FINAL_RUN_STATES
from faultline_gateway.runs.context import RunLedger

LOOK_SECONDS = 0.5
"""Each item takes seconds, so looking twice a second causes no delay and costs a read of 1 ms."""
HEARTBEAT_SECONDS = 15.0
"""Proxies cut connections that are silent for 30 to 60 s."""
LONGEST_WAIT_SECONDS = 60.0


async def wait_for_end(ledger: RunLedger, run_id: str, seconds: float) -> Run:
    """Return the run when it has ended, or its current state after ``seconds``."""
    # Polls the ledger, because a process on another machine may end the run.
    deadline = time.monotonic() + seconds
    run = await asyncio.to_thread(ledger.run, run_id)
    while run.state not in FINAL_RUN_STATES and time.monotonic() < deadline:
        await asyncio.sleep(min(LOOK_SECONDS, max(0.0, deadline - time.monotonic())))
        run = await asyncio.to_thread(ledger.run, run_id)
    return run


def first_event_id(ledger: RunLedger, run_id: str, last_seen: int | None) -> int:
    """Return the id after which a stream begins: the last one seen, or just before the newest event.

    Raises:
        NotFound: the run does not exist.
    """
    # The newest event gives a new client the current state. An id of the future, seen before the database
    # was restored, must not hide the end of the run.
    newest = ledger.last_event(run_id).id
    return newest - 1 if last_seen is None else min(last_seen, newest)


def event_response(ledger: RunLedger, run_id: str, *, after: int) -> EventSourceResponse:
    """Stream the run's events as they occur, with a comment after a while without events."""
    stream = event_stream(ledger, run_id, after=after)
    return EventSourceResponse(stream, ping=HEARTBEAT_SECONDS, ping_message_factory=_heartbeat)


async def event_stream(ledger: RunLedger, run_id: str, *, after: int) -> AsyncIterator[ServerSentEvent]:
    """Yield the run's events with larger ids than ``after`` as they occur, until the run has ended."""
    ended = False
    while not ended:
        events = await asyncio.to_thread(ledger.events, run_id, after=after)
        for event in events:
            yield ServerSentEvent(event.model_dump_json(), id=str(event.id), event="progress")
            after = event.id
        if not events:
            ended = await _has_ended(ledger, run_id, after)
            await asyncio.sleep(0 if ended else LOOK_SECONDS)


async def _has_ended(ledger: RunLedger, run_id: str, after: int) -> bool:
    last = await asyncio.to_thread(ledger.last_event, run_id)
    return last.state in FINAL_RUN_STATES and last.id <= after


def _heartbeat() -> ServerSentEvent:
    return ServerSentEvent(comment="heartbeat")


MEDIA_TYPE = "application/jsonl"


def result_lines(
    ledger: RunLedger, run_id: str, shape: type[RunItem[Any]], *, from_ordinal: int
) -> Iterator[str]:
    """Yield a line for each ended item from ``from_ordinal`` on, then the trailer.

    ``shape`` is the item of runs of this kind. The trailer holds the number of lines, their SHA-256 with
    line ends, and ``complete``: whether the run had ended before the first line was read.
    """
    # Read before the items: a run that ends during the stream is reported as incomplete, never the reverse.
    complete = ledger.run(run_id).state in FINAL_RUN_STATES
    checksum, lines = hashlib.sha256(), 0
    for item in ledger.items_of(run_id, shape, from_ordinal=from_ordinal):
        # Open items are left out: every line is final, so lines read twice are equal.
        if item.state in FINAL_ITEM_STATES:
            line = item.model_dump_json() + "\n"
            checksum.update(line.encode())
            lines += 1
            yield line
    yield json.dumps({"lines": lines, "sha256": checksum.hexdigest(), "complete": complete}) + "\n"
