"""Follow a run: its events as they occur, one answer that waits for the end, its results as JSON lines."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from counterpose_core.contract.runs import RunItem
from counterpose_core.errors import NotFound
from counterpose_core.types import FINAL_ITEM_STATES, FINAL_RUN_STATES
from counterpose_gateway.progress.following import FollowedRuns
from counterpose_gateway.progress.status import RunStatus, StatusText

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

HEARTBEAT_SECONDS = 15.0
"""Proxies cut connections that are silent for 30 to 60 s."""
STALLED_SECONDS = 60.0
"""For which a listener may take nothing of what is sent; it is left then, and can go on by Last-Event-ID."""
LONGEST_WAIT_SECONDS = 60.0


async def wait_for_end(followed: FollowedRuns, status: RunStatus, run_id: str, seconds: float) -> StatusText:
    """Return the run when it has ended, or its current state after ``seconds``.

    Raises:
        NotFound: the run does not exist.
    """
    deadline = time.monotonic() + seconds
    now = await status.read(run_id)
    if now.has_ended or not seconds:
        return now
    async with followed.following(run_id) as run:
        # An end from before the run was followed is read here; a later one is seen by the look.
        now = await status.read(run_id)
        while not now.has_ended and (left := deadline - time.monotonic()) > 0:
            await run.change(left)
            if run.is_still:
                now = await status.read(run_id)
    return now if now.has_ended else await status.read(run_id)


async def first_event_id(followed: FollowedRuns, run_id: str, last_seen: int | None) -> int:
    """Return the id after which a stream begins: the last one seen, or just before the newest event.

    Raises:
        NotFound: the run does not exist.
    """
    # The newest event gives a new client the current state. An id of the future, seen before the database
    # was restored, must not hide the end of the run.
    newest = await followed.newest_id(run_id, at_least=last_seen or 0)
    return newest - 1 if last_seen is None else min(last_seen, newest)


def event_response(followed: FollowedRuns, run_id: str, *, after: int) -> EventSourceResponse:
    """Stream the run's events as they occur, with a comment after a while without events."""
    stream = event_stream(followed, run_id, after=after)
    return _Stream(
        stream, ping=HEARTBEAT_SECONDS, ping_message_factory=_heartbeat, send_timeout=STALLED_SECONDS
    )  # fmt: skip


class _Stream(EventSourceResponse):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Its listener's place is free again; there is nobody to tell why.
        with suppress(SendTimeoutError):
            await super().__call__(scope, receive, send)


async def event_stream(followed: FollowedRuns, run_id: str, *, after: int) -> AsyncGenerator[bytes]:
    """Yield the run's events with larger ids than ``after`` as they occur, until the run has ended.

    Each piece has one or several whole events, as they are sent.
    """
    async with aclosing(followed.events(run_id, after)) as batches:
        async for events in batches:
            yield b"".join(event.sent for event in events)


def _heartbeat() -> ServerSentEvent:
    return ServerSentEvent(comment="heartbeat")


MEDIA_TYPE = "application/jsonl"


def result_lines(
    ledger: Ledger, run_id: str, shape: type[RunItem[Any]], *, from_ordinal: int
) -> Iterator[str]:
    """Yield a line for each ended item from ``from_ordinal`` on, then the trailer.

    ``shape`` is the item of runs of this kind. The trailer holds the number of lines, their SHA-256 with
    line ends, and ``complete``: whether the run had ended before the first line was read, and was not deleted
    before the last one was.
    """
    # Read before the items: a run that ends during the stream is reported as incomplete, never the reverse.
    complete = ledger.runs.get(run_id).state in FINAL_RUN_STATES
    checksum, lines = hashlib.sha256(), 0
    try:
        for item in ledger.items.of(run_id, shape, from_ordinal=from_ordinal):
            # Open items are left out: every line is final, so lines read twice are equal.
            if item.state in FINAL_ITEM_STATES:
                line = item.model_dump_json() + "\n"
                checksum.update(line.encode())
                lines += 1
                yield line
    except NotFound:
        # Deleted during the stream: a client must not take what it got for the whole.
        complete = False
    yield json.dumps({"lines": lines, "sha256": checksum.hexdigest(), "complete": complete}) + "\n"
