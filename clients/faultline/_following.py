"""Where a reader of a run's events stands: what was seen, and what to do when a stream breaks."""

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
"""As often a run is looked at while no stream of its events can be had."""


class Following:
    """One reader's way through the events; streams are opened, read and closed by its caller."""

    def __init__(self, calls: RunCalls[Any, Any], run: Run) -> None:
        self._calls = calls
        self._id = run.id
        # No event yet: the gateway then begins with the newest, so that a late reader sees where it stands.
        self._last: int | None = None
        self._seen: tuple[RunState, RequestCounts] | None = None
        self._fresh = 0

    def ended(self) -> bool:
        """Whether the run's last event has been seen."""
        return self._seen is not None and self._seen[0] in FINAL_RUN_STATES

    def stalled(self) -> bool:
        """Whether the last stream brought nothing: opening the next at once would spin."""
        return not self.ended() and self._fresh == 0

    def call(self) -> Call[None]:
        """Open a stream after the last event seen."""
        return self._calls.events(self._id, self._last)

    def poll_call(self) -> Call[Run]:
        """Look at the run itself, for as long as a gateway may take to come back."""
        return self._calls.wait(self._id, POLL_SLICE_S, patient=True)

    @contextmanager
    def one_stream(self) -> Iterator[None]:
        """Read one stream inside; that it breaks ends it and nothing more."""
        self._fresh = 0
        try:
            yield
        except BackendError:
            # It is taken up after the last event, or the run is polled; a gateway that is gone for good
            # is found out by the poll, which raises in the end.
            return

    def take(self, data: str) -> RunEvent | None:
        """Read one server-sent event; None for one that says nothing new, such as a heartbeat.

        Raises:
            BadBackendOutput: it is no event.
        """
        event = _event_of(data)
        # A proxy may drop Last-Event-ID; what was yielded once is not yielded again.
        if event is None or (self._last is not None and event.id <= self._last):
            return None
        self._last = event.id
        self._fresh += 1
        self._seen = (event.state, event.request_counts)
        return event

    def polled(self, run: Run) -> RunEvent | None:
        """Progress read off the run, under the id last seen; None when nothing has changed."""
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
        raise BadBackendOutput(f"a server-sent event is no RunEvent: {error}") from error
