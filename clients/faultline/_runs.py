"""A stress test taken by its id: follow it, wait for it, read it. Waiting survives lost connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Self

import httpx
from httpx_sse import EventSource

from faultline._retries import transport_error
from faultline._sending import AsyncSender, Sender
from faultline._stress_test_calls import (
    cancel_call,
    event_of,
    events_call,
    get_call,
    items_call,
    picture_call,
    report_call,
    resume_call,
    summary_call,
    wait_call,
)
from faultline_core.contract.runs import Item, Run, RunEvent
from faultline_core.contract.stress_tests import StressTestSummary
from faultline_core.errors import BackendError, BackendUnavailable
from faultline_core.types import FINAL_RUN_STATES

WAIT_SLICE_S = 25.0
LOST_STREAMS = 20
"""How many times in a row an event stream may break before the reader gives up."""


def _ended(event: RunEvent) -> bool:
    return event.state in FINAL_RUN_STATES


class _Handle:
    """What both kinds of handle know without asking."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @property
    def id(self) -> str:
        """The run's id: ``client.stress_tests.get(id)`` takes it up again."""
        return self.run.id

    @property
    def ended(self) -> bool:
        """Whether the run had ended when last looked at."""
        return self.run.state in FINAL_RUN_STATES

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.run.id!r}, state={self.run.state!r})"


class StressTest(_Handle):
    """A stress test, followed by blocking calls."""

    def __init__(self, sender: Sender, run: Run) -> None:
        super().__init__(run)
        self._sender = sender

    def refresh(self) -> Self:
        """Look at the run again."""
        self.run = self._sender.send(get_call(self.id))
        return self

    def events(self) -> Iterator[RunEvent]:
        """Progress as it happens, until the run ends; a broken stream is taken up where it broke."""
        last: int | None = None
        lost = 0
        while lost < LOST_STREAMS:
            try:
                for event in self._stream(last):
                    last, lost = event.id, 0
                    yield event
                    if _ended(event):
                        self.refresh()
                        return
                lost += 1
            except BackendError:
                lost += 1
                self._sender.send(wait_call(self.id, min(lost, 5)))
            except httpx.TransportError as error:
                lost += 1
                if lost >= LOST_STREAMS:
                    raise transport_error(error) from error
        raise BackendUnavailable(f"the event stream of run {self.id!r} broke {lost} times in a row")

    def _stream(self, last: int | None) -> Iterator[RunEvent]:
        with self._sender.stream(events_call(self.id, last)) as response:
            for sent in EventSource(response).iter_sse():
                event = event_of(sent.data)
                if event is not None:
                    yield event

    def wait(self, timeout: float | None = None) -> Self:
        """Block until the run has ended, or for ``timeout`` seconds."""
        left = timeout
        while not self.ended and (left is None or left > 0):
            slice_s = WAIT_SLICE_S if left is None else min(WAIT_SLICE_S, left)
            self.run = self._sender.send(wait_call(self.id, slice_s))
            left = None if left is None else left - slice_s
        return self

    def summary(self) -> StressTestSummary:
        """The figures, each with its interval and n."""
        return self._sender.send(summary_call(self.id))

    def items(self) -> Iterator[Item]:
        """Every planned item in order, page by page."""
        after: str | None = None
        while True:
            page = self._sender.send(items_call(self.id, after=after))
            yield from page.items
            after = page.after
            if after is None:
                return

    def report(self) -> str:
        """The report as one HTML file."""
        return self._sender.send(report_call(self.id))

    def picture(self, ref: str) -> bytes:
        """A picture of the run as PNG."""
        return self._sender.send(picture_call(ref))

    def cancel(self) -> Self:
        """Stop the run; what is finished is kept."""
        self.run = self._sender.send(cancel_call(self.id))
        return self

    def resume(self) -> Self:
        """Take failed and cancelled items up again."""
        self.run = self._sender.send(resume_call(self.id))
        return self


class AsyncStressTest(_Handle):
    """A stress test, followed by awaitable calls."""

    def __init__(self, sender: AsyncSender, run: Run) -> None:
        super().__init__(run)
        self._sender = sender

    async def refresh(self) -> Self:
        """Look at the run again."""
        self.run = await self._sender.send(get_call(self.id))
        return self

    async def events(self) -> AsyncIterator[RunEvent]:
        """Progress as it happens, until the run ends; a broken stream is taken up where it broke."""
        last: int | None = None
        lost = 0
        while lost < LOST_STREAMS:
            try:
                async for event in self._stream(last):
                    last, lost = event.id, 0
                    yield event
                    if _ended(event):
                        await self.refresh()
                        return
                lost += 1
            except BackendError:
                lost += 1
                await self._sender.send(wait_call(self.id, min(lost, 5)))
            except httpx.TransportError as error:
                lost += 1
                if lost >= LOST_STREAMS:
                    raise transport_error(error) from error
        raise BackendUnavailable(f"the event stream of run {self.id!r} broke {lost} times in a row")

    async def _stream(self, last: int | None) -> AsyncIterator[RunEvent]:
        async with self._sender.stream(events_call(self.id, last)) as response:
            async for sent in EventSource(response).aiter_sse():
                event = event_of(sent.data)
                if event is not None:
                    yield event

    async def wait(self, timeout: float | None = None) -> Self:  # noqa: ASYNC109 - the server does the waiting
        """Wait until the run has ended, or for ``timeout`` seconds."""
        left = timeout
        while not self.ended and (left is None or left > 0):
            slice_s = WAIT_SLICE_S if left is None else min(WAIT_SLICE_S, left)
            self.run = await self._sender.send(wait_call(self.id, slice_s))
            left = None if left is None else left - slice_s
        return self

    async def summary(self) -> StressTestSummary:
        """The figures, each with its interval and n."""
        return await self._sender.send(summary_call(self.id))

    async def items(self) -> AsyncIterator[Item]:
        """Every planned item in order, page by page."""
        after: str | None = None
        while True:
            page = await self._sender.send(items_call(self.id, after=after))
            for item in page.items:
                yield item
            after = page.after
            if after is None:
                return

    async def report(self) -> str:
        """The report as one HTML file."""
        return await self._sender.send(report_call(self.id))

    async def picture(self, ref: str) -> bytes:
        """A picture of the run as PNG."""
        return await self._sender.send(picture_call(ref))

    async def cancel(self) -> Self:
        """Stop the run; what is finished is kept."""
        self.run = await self._sender.send(cancel_call(self.id))
        return self

    async def resume(self) -> Self:
        """Take failed and cancelled items up again."""
        self.run = await self._sender.send(resume_call(self.id))
        return self
