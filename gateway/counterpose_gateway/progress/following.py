"""Runs that are followed: one look at the ledger every half second serves all who listen or wait.

Follow a run: its events as they occur, one answer that waits for the end, its results as JSON lines.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from counterpose_core.contract.runs import RunEvent, RunItem
from counterpose_core.errors import NotFound
from counterpose_core.types import FINAL_ITEM_STATES, FINAL_RUN_STATES, RunState
from counterpose_gateway.progress.status import RunStatus, StatusText

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger
    from counterpose_gateway.ledger.runs.status import Events

LOOK_SECONDS = 0.5
"""Each item takes seconds, so looking twice a second causes no delay and costs a read of 1 ms."""

KEPT_EVENTS = 1000
"""Newest events of a run in memory; who is further behind reads the ledger at their own pace."""

WOKEN_TOGETHER = 20
"""Listeners woken before others have their turn: a thousand at once would hold every poll for 100 ms."""

PAUSE_SECONDS = 0.004
"""Between two groups of them, in which polls are answered; a thousand listeners are told within 0.4 s."""

_logger = logging.getLogger(__name__)


class Told(NamedTuple):
    """An event in the words of the stream, written once for all who listen."""

    id: int
    state: RunState
    sent: bytes


def told(event: RunEvent) -> Told:
    """Write an event as a server-sent event."""
    text = f"id: {event.id}\r\nevent: progress\r\ndata: {event.model_dump_json()}\r\n\r\n"
    return Told(event.id, event.state, text.encode())


class FollowedRun:
    """The newest events of a run that someone follows.

    Listeners come and take what they lack: one who is slow holds nobody and costs no memory.
    """

    def __init__(self, newest: RunEvent, seen_at: float) -> None:
        self.newest_id = newest.id
        self.state: RunState = newest.state
        self.seen_at = seen_at
        self.is_gone = False
        self.listeners = 0
        # All events with larger ids than this one are in memory.
        self._since = newest.id - 1
        self._events: deque[Told] = deque([told(newest)])
        self._waiting: dict[asyncio.Future[None], None] = {}

    @property
    def is_still(self) -> bool:
        """Whether no event will come, unless the run is resumed."""
        return self.is_gone or self.state in FINAL_RUN_STATES

    def is_known_from(self, after: int) -> bool:
        """Whether all events after this one are in memory."""
        return after >= self._since

    def since(self, after: int) -> list[Told]:
        """Return the events in memory after this one, oldest first."""
        if after >= self.newest_id:
            return []
        return [event for event in self._events if event.id > after]

    def add(self, events: Sequence[Told], seen_at: float) -> None:
        """Take what one look found; ``seen_at`` is when it began."""
        self.seen_at = seen_at
        for event in events:
            self._events.append(event)
            self.newest_id, self.state = event.id, event.state
        while len(self._events) > KEPT_EVENTS:
            self._since = self._events.popleft().id

    async def change(self, seconds: float | None = None) -> None:
        """Wait until something may have changed, at most for ``seconds``."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiting] = None
        try:
            async with asyncio.timeout(seconds):
                await waiting
        except TimeoutError:
            pass
        finally:
            self._waiting.pop(waiting, None)

    def take_waiting(self) -> list[asyncio.Future[None]]:
        """Return all who wait, to be woken by the caller."""
        waiting, self._waiting = list(self._waiting), {}
        return waiting


class FollowedRuns:
    """All runs that someone follows in this process, and the one task that looks for their new events."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._runs: dict[str, FollowedRun] = {}
        self._looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def following(self, run_id: str) -> AsyncIterator[FollowedRun]:
        """Follow a run: it is looked at while the block lasts.

        Raises:
            NotFound: the run does not exist.
        """
        run = self._runs.get(run_id)
        if run is None or run.is_gone:
            seen_at = time.monotonic()
            newest = await asyncio.to_thread(self._events.last, run_id)
            # Another one may have come meanwhile; what it knows is looked at in any case.
            run = self._runs.setdefault(run_id, FollowedRun(newest, seen_at))
        run.listeners += 1
        try:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look())
            yield run
        finally:
            run.listeners -= 1
            if not run.listeners and self._runs.get(run_id) is run:
                del self._runs[run_id]

    async def newest_id(self, run_id: str, at_least: int = 0) -> int:
        """Return the number of the newest event: a known one if it is large enough, or that of the ledger.

        Raises:
            NotFound: the run does not exist.
        """
        run = self._runs.get(run_id)
        if run is not None and not run.is_gone and run.newest_id >= at_least:
            return run.newest_id
        return (await asyncio.to_thread(self._events.last, run_id)).id

    async def events(self, run_id: str, after: int) -> AsyncGenerator[list[Told]]:
        """Yield the run's events with larger ids than ``after`` as they occur, until the run has ended."""
        came_at = time.monotonic()
        async with self.following(run_id) as run:
            while True:
                for_now = await self._next(run_id, run, after)
                if for_now:
                    after = for_now[-1].id
                    yield for_now
                # A look from before we came may have seen an end that was resumed since.
                elif run.is_still and run.seen_at >= came_at:
                    return
                else:
                    await run.change()

    async def _next(self, run_id: str, run: FollowedRun, after: int) -> list[Told]:
        if run.is_known_from(after):
            return run.since(after)
        return [told(event) for event in await asyncio.to_thread(self._events.page, run_id, after=after)]

    async def _look(self) -> None:
        due = time.monotonic()
        while self._runs:
            due = max(due + LOOK_SECONDS, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
            if not self._runs:
                return
            try:
                waiting = await self._look_once()
            except Exception:  # whatever it is: if nobody looked, all listeners would wait for ever
                # They lose nothing: the next look asks from the same events.
                _logger.exception("the runs that are followed cannot be looked at; trying again")
            else:
                await _wake(waiting)

    async def _look_once(self) -> list[asyncio.Future[None]]:
        seen_at = time.monotonic()
        known = {run_id: run.newest_id for run_id, run in self._runs.items()}
        found = await asyncio.to_thread(self._found, known)
        waiting: list[asyncio.Future[None]] = []
        for run_id, events in found.items():
            run = self._runs.get(run_id)
            # One that was opened after the look began may know more already.
            if run is None or run.newest_id != known[run_id]:
                continue
            if events is None:
                run.is_gone = True
                run.seen_at = seen_at
            else:
                run.add(events, seen_at)
            if events or run.is_still:
                waiting += run.take_waiting()
        return waiting

    def _found(self, known: Mapping[str, int]) -> dict[str, list[Told] | None]:
        new = self._events.new(known)
        # Written here, in the look's thread, and once for all who listen.
        return {run_id: [told(each) for each in new[run_id]] if run_id in new else None for run_id in known}


async def _wake(waiting: Sequence[asyncio.Future[None]]) -> None:
    for number, one in enumerate(waiting, start=1):
        if not one.done():
            one.set_result(None)
        if number % WOKEN_TOGETHER == 0:
            await asyncio.sleep(PAUSE_SECONDS)


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
