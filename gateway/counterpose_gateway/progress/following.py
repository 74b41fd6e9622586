"""Runs that are followed: one look at the ledger every half second serves all who listen or wait."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from counterpose_core.contract.runs import RunEvent
from counterpose_core.types import FINAL_RUN_STATES, RunState

if TYPE_CHECKING:
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
