"""Reading a run's two streams, events and results: what was read, and where to continue when one breaks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic

from pydantic import ValidationError

from counterpose._calls import Call
from counterpose._run_calls import AnyItem, RunCalls
from counterpose_core.contract.field_errors import in_words
from counterpose_core.contract.runs import RequestCounts, Run, RunEvent
from counterpose_core.errors import BackendError, BadBackendOutput
from counterpose_core.types import FINAL_RUN_STATES, RunState

POLL_SLICE_S = 5.0
"""Seconds between looks at a run while its events cannot be streamed."""

_FRUITLESS = 3
"""Streams in a row that may break before their first item before the download fails."""

# Items start with their id, so no line is parsed twice to tell them from the trailer.
_TRAILER = b'{"lines"'


class EventStream:
    """One reader's position in the events; the caller opens, reads and closes the streams.

    ``last`` is the number of the last event seen; 0 begins with the run's first one.
    """

    def __init__(self, calls: RunCalls[Any, Any], run: Run, last: int | None = None) -> None:
        self._calls = calls
        self._id = run.id
        # No event yet: the gateway then starts with the newest, so a late reader sees the current state.
        self._last = last
        self._seen: tuple[RunState, RequestCounts] | None = None
        self._fresh = 0

    def ended(self) -> bool:
        """Whether the run's last event has been seen."""
        return self._seen is not None and self._seen[0] in FINAL_RUN_STATES

    def stalled(self) -> bool:
        """Whether the last stream brought no event: reopening at once would spin."""
        return not self.ended() and self._fresh == 0

    def call(self) -> Call[None]:
        """Return the call that opens a stream after the last event seen."""
        return self._calls.events(self._id, self._last)

    def poll_call(self) -> Call[Run]:
        """Return the call that polls the run, for as long as a gateway may take to return."""
        return self._calls.wait(self._id, POLL_SLICE_S, patient=True)

    @contextmanager
    def one_stream(self) -> Iterator[None]:
        """Read one stream inside; a broken stream ends quietly."""
        self._fresh = 0
        try:
            yield
        except BackendError:
            # The next stream continues after the last event, or the run is polled. If the gateway is gone
            # for good, the poll raises in the end.
            return

    def take(self, data: str) -> RunEvent | None:
        """Parse one server-sent event; None if it says nothing new, such as a heartbeat.

        Raises:
            BadBackendOutput: the data is not an event.
        """
        event = _event_of(data)
        # A proxy may drop Last-Event-ID: no event is yielded twice.
        if event is None or (self._last is not None and event.id <= self._last):
            return None
        self._last = event.id
        self._fresh += 1
        self._seen = (event.state, event.request_counts)
        return event

    def polled(self, run: Run) -> RunEvent | None:
        """Progress as polled from the run, under the last id seen; None if nothing has changed."""
        if (run.state, run.request_counts) == self._seen:
            return None
        self._seen = (run.state, run.request_counts)
        return RunEvent(id=self._last or 0, run_id=run.id, state=run.state, request_counts=run.request_counts)


class Results(Generic[AnyItem]):
    """One reader's position in a run's results; the caller opens, reads and closes the streams.

    A broken stream continues after the last item. Each stream's lines are compared with its checksum.
    """

    def __init__(self, calls: RunCalls[AnyItem, Any], run_id: str) -> None:
        self._calls = calls
        self._id = run_id
        self._next = self._lines = self._fruitless = 0
        self._sum = hashlib.sha256()
        self._rest = b""
        self._whole = self._wrong = False

    def whole(self) -> bool:
        """Whether the trailer arrived and matches what was read."""
        return self._whole

    def call(self) -> Call[None]:
        """Return the call that opens a stream after the last item read."""
        self._sum, self._lines, self._rest = hashlib.sha256(), 0, b""
        return self._calls.results(self._id, self._next)

    def poll_call(self) -> Call[Run]:
        """Return the call that polls the run, for as long as a gateway may take to return."""
        return self._calls.wait(self._id, 0.0, patient=True)

    @contextmanager
    def one_stream(self) -> Iterator[None]:
        """Read one stream inside; a broken stream ends quietly, unless several brought nothing."""
        before = self._next
        broken: BackendError = BadBackendOutput(f"the results of run {self._id} ended before their trailer")
        try:
            yield
        except BackendError as error:
            if self._wrong:
                raise
            broken = error
        if self._whole:
            return
        self._fruitless = 0 if self._next > before else self._fruitless + 1
        if self._fruitless == _FRUITLESS:
            raise broken

    def take(self, data: bytes) -> Iterator[AnyItem]:
        """Yield the items that this piece of the stream completes.

        Raises:
            BadBackendOutput: a line is not an item, or the trailer does not match the lines.
        """
        # Not httpx's lines, which also end at characters that a caption may hold, such as U+2028.
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(_TRAILER):
                self._check(line)
            else:
                yield self._item(line)

    def _item(self, line: bytes) -> AnyItem:
        try:
            item = self._calls.item.model_validate_json(line)
        except ValidationError as error:
            raise BadBackendOutput(
                f"a line of results is not a {self._calls.item.__name__}: {in_words(error)}"
            ) from error
        self._sum.update(line + b"\n")
        self._lines += 1
        self._next = item.ordinal + 1
        return item

    def _check(self, trailer: bytes) -> None:
        found = json.loads(trailer)
        if (found["lines"], found["sha256"]) != (self._lines, self._sum.hexdigest()):
            self._wrong = True
            raise BadBackendOutput(f"the results of run {self._id} do not match their checksum")
        self._whole = True


def _event_of(data: str) -> RunEvent | None:
    if not data:
        return None
    try:
        return RunEvent.model_validate_json(data)
    except ValidationError as error:
        raise BadBackendOutput(f"a server-sent event is not a RunEvent: {in_words(error)}") from error
