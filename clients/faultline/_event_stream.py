"""Reading a run's events: which were seen, and what to do when the stream breaks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

from faultline._calls import Call
from faultline._run_calls import RunCalls
from faultline_core.contract.runs import RequestCounts, Run, RunEvent
from faultline_core.errors import BackendError, BadBackendOutput
from faultline_core.types import FINAL_RUN_STATES, RunState

POLL_SLICE_S = 5.0
"""Seconds between looks at a run while its events cannot be streamed."""


class EventStream:
    """One reader's position in the events; the caller opens, reads and closes the streams."""

    def __init__(self, calls: RunCalls[Any, Any], run: Run) -> None:
        self._calls = calls
        self._id = run.id
        # No event yet: the gateway then starts with the newest, so a late reader sees the current state.
        self._last: int | None = None
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


def _event_of(data: str) -> RunEvent | None:
    if not data:
        return None
    try:
        return RunEvent.model_validate_json(data)
    except ValidationError as error:
        raise BadBackendOutput(f"a server-sent event is not a RunEvent: {error}") from error
