"""A stress test taken by its id: follow it, wait for it, read it. Waiting survives lost connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Self

from httpx_sse import EventSource

from faultline._follow_up import follow_up, insight_of, needs_example
from faultline._following import Following
from faultline._paging import pages, pages_async
from faultline._sending import AsyncSender, Sender
from faultline._stress_test_calls import (
    cancel_call,
    create_call,
    get_call,
    items_call,
    picture_call,
    report_call,
    resume_call,
    summary_call,
    wait_calls,
)
from faultline_core.contract.runs import Item, Run, RunEvent
from faultline_core.contract.stress_tests import Insight, StressTestSummary
from faultline_core.types import FINAL_RUN_STATES


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
        """Progress as it happens, until the run ends.

        A broken stream is taken up after the last event; where none can be had, the run is polled and what
        has changed comes as an event under the id last seen.

        Raises:
            BackendError: the gateway stayed away for longer than the client's patience.
        """
        following = Following(self.run)
        while not following.ended():
            with following.one_stream(), self._sender.stream(following.call()) as response:
                for sent in EventSource(response).iter_sse():
                    if (event := following.take(sent.data)) is not None:
                        yield event
                    # The gateway closes its stream now; a proxy between may keep it open for minutes.
                    if following.ended():
                        break
            if following.stalled() and (seen := following.polled(self._sender.send(following.poll_call()))):
                yield seen
        # An event has counts only; when the run ended and of what, it says itself.
        self.refresh()

    def wait(self, timeout: float | None = None) -> Self:
        """Block until the run has ended, or for ``timeout`` seconds."""
        for call in wait_calls(self.id, timeout):
            if self.ended:
                break
            self.run = self._sender.send(call)
        return self

    def summary(self) -> StressTestSummary:
        """The figures, each with its interval and n."""
        return self._sender.send(summary_call(self.id))

    def items(self) -> Iterator[Item]:
        """Every planned item in order, page by page."""
        for page in pages(self._sender, partial(items_call, self.id)):
            yield from page.items

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

    def apply(self, insight: Insight | int, *, seed: int | None = None) -> StressTest:
        """Start a stress test that makes an insight's change, and no other, in every picture of the dataset.

        ``insight`` is one of the summary's, or its number there from 1. ``seed`` is the run's plus one
        unless given. A classifier ``py:...`` has to be served still.

        Raises:
            InvalidRequest: there is no such insight, or its words cannot be told.
        """
        summary = self.summary()
        found, example = insight_of(summary, insight), None
        if needs_example(found):
            example = next((item for item in self.items() if item.id == found.example_item), None)
        body = follow_up(summary, found, example, seed)
        return StressTest(self._sender, self._sender.send(create_call(body, None)))


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
        """Progress as it happens, until the run ends; as `StressTest.events`."""
        following = Following(self.run)
        while not following.ended():
            with following.one_stream():
                async with self._sender.stream(following.call()) as response:
                    async for sent in EventSource(response).aiter_sse():
                        if (event := following.take(sent.data)) is not None:
                            yield event
                        if following.ended():
                            break
            if following.stalled():
                seen = following.polled(await self._sender.send(following.poll_call()))
                if seen is not None:
                    yield seen
        await self.refresh()

    async def wait(self, timeout: float | None = None) -> Self:  # noqa: ASYNC109 - the server does the waiting
        """Wait until the run has ended, or for ``timeout`` seconds."""
        for call in wait_calls(self.id, timeout):
            if self.ended:
                break
            self.run = await self._sender.send(call)
        return self

    async def summary(self) -> StressTestSummary:
        """The figures, each with its interval and n."""
        return await self._sender.send(summary_call(self.id))

    async def items(self) -> AsyncIterator[Item]:
        """Every planned item in order, page by page."""
        async for page in pages_async(self._sender, partial(items_call, self.id)):
            for item in page.items:
                yield item

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

    async def apply(self, insight: Insight | int, *, seed: int | None = None) -> AsyncStressTest:
        """Start a stress test of an insight's change alone; as `StressTest.apply`."""
        summary = await self.summary()
        found, example = insight_of(summary, insight), None
        if needs_example(found):
            example = await anext(
                (item async for item in self.items() if item.id == found.example_item), None
            )
        body = follow_up(summary, found, example, seed)
        return AsyncStressTest(self._sender, await self._sender.send(create_call(body, None)))
