"""A run of any kind by its id: follow it, wait for it, read it. Waiting survives lost connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Generic, Self

from httpx_sse import EventSource

from counterpose._audit import Audit, Auditing
from counterpose._calls import Call
from counterpose._files import open_page, save_page
from counterpose._frames import data_frame
from counterpose._notebook import framed, progress
from counterpose._paging import pages, pages_async
from counterpose._progress import PROGRESS_SLICE_S, shown_if
from counterpose._run_calls import FIRST_SCREEN, WAIT_SLICE_S, AnyItem, RunCalls, Summary, image_call
from counterpose._run_streams import EventStream, Results
from counterpose._transport_protocol import AsyncSender, Sender
from counterpose_core.contract.runs import Run, RunEvent
from counterpose_core.errors import ArtifactCorrupt, ArtifactMissing, CounterposeError
from counterpose_core.types import FINAL_RUN_STATES


class _Handle(Generic[AnyItem, Summary]):
    """What both handles know without a request; each kind of run has its own ``_calls``."""

    _calls: RunCalls[AnyItem, Summary]

    def __init__(self, run: Run) -> None:
        self.run = run

    @property
    def id(self) -> str:
        """The run's id, which ``get`` takes."""
        return self.run.id

    @property
    def parent(self) -> str | None:
        """The id of the ended run that this one continues, such as the one whose finding it proves."""
        return self.run.parent

    @property
    def ended(self) -> bool:
        """Whether the run had ended when it was last fetched."""
        return self.run.state in FINAL_RUN_STATES

    def _waits(self, timeout: float | None, progress: bool) -> Iterator[Call[Run]]:
        slice_s = PROGRESS_SLICE_S if progress else WAIT_SLICE_S
        return self._calls.waits(self.id, timeout, slice_s=slice_s)

    def _repr_html_(self) -> str:
        return progress(self.run)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.run.id!r}, state={self.run.state!r})"


class RunHandle(_Handle[AnyItem, Summary]):
    """A run, followed by blocking calls."""

    def __init__(self, sender: Sender, run: Run) -> None:
        super().__init__(run)
        self._sender = sender

    @property
    def page(self) -> str:
        """The address of the run's page, for a browser."""
        return f"{self._sender.address}/ui/runs/{self.id}"

    def _repr_html_(self) -> str:
        """Return the first screen of the report; of a run that is going, how far it is."""
        try:
            if not self.refresh().ended:
                return progress(self.run)
            return framed(self._sender.send(self._calls.report(self.id, FIRST_SCREEN)), self.run)
        except CounterposeError:
            # A notebook shows what is known: an error would hide the value of the cell.
            return progress(self.run)

    def refresh(self) -> Self:
        """Fetch the run's current state."""
        self.run = self._sender.send(self._calls.get(self.id))
        return self

    def events(self) -> Iterator[RunEvent]:
        """Yield progress events until the run ends.

        A broken stream continues after the last event. Where no stream can be opened, the run is polled and
        changes are yielded as events under the last id seen.

        Raises:
            BackendError: the gateway stayed unreachable for longer than the client retries.
        """
        yield from self._events(EventStream(self._calls, self.run))
        # An event has counts only: when and why the run ended is in the run itself.
        self.refresh()

    def _events(self, following: EventStream) -> Iterator[RunEvent]:
        while not following.ended():
            with following.one_stream(), self._sender.stream(following.call()) as response:
                for sent in EventSource(response).iter_sse():
                    if (event := following.take(sent.data)) is not None:
                        yield event
                    # The gateway closes its stream now, but a proxy may keep it open for minutes.
                    if following.ended():
                        break
            if following.stalled() and (seen := following.polled(self._sender.send(following.poll_call()))):
                yield seen

    def wait(self, timeout: float | None = None, *, progress: bool = False) -> Self:
        """Block until the run has ended, at most for ``timeout`` seconds.

        With ``progress``, a line on standard error shows how far the run is, or a bar in a notebook.
        """
        with shown_if(progress) as show:
            for call in self._waits(timeout, progress):
                if self.ended:
                    break
                self.run = self._sender.send(call)
                show(self.run)
        return self

    def summary(self) -> Summary:
        """Return the summary: each figure with its interval and n."""
        return self._sender.send(self._calls.summary(self.id))

    def items(self) -> Iterator[AnyItem]:
        """Yield every planned item in order, page by page."""
        for page in pages(self._sender, partial(self._calls.items, self.id)):
            yield from page.items

    def item(self, item_id: str) -> AnyItem:
        """Return one item."""
        return self._sender.send(self._calls.one_item(self.id, item_id))

    def results(self) -> Iterator[AnyItem]:
        """Yield every finished item in order from one stream, and verify its checksum at the end.

        A broken stream continues after the last item.

        Raises:
            BadBackendOutput: the results do not match their checksum.
            BackendError: the gateway stayed unreachable for longer than the client retries.
        """
        reading = Results(self._calls, self.id)
        while not reading.whole():
            with reading.one_stream(), self._sender.stream(reading.call()) as response:
                for data in response.iter_bytes():
                    yield from reading.take(data)
            if not reading.whole():
                self._sender.send(reading.poll_call())

    def report(self) -> str:
        """Return the report as one HTML file."""
        return self._sender.send(self._calls.report(self.id))

    def share(self, *, expires_in: float = 86_400.0) -> str:
        """Return a link to the report that needs no key, for ``expires_in`` seconds: from 60 to a week."""
        return f"{self._sender.address}{self._sender.send(self._calls.share(self.id, expires_in)).url}"

    def save_report(self, path: str | Path) -> Path:
        """Write the report to an HTML file, or into a folder as ``report.html``; return the file's path.

        What the report holds for download is written beside it: of a stress test its first screen as
        Markdown, and its findings as CSV.

        Raises:
            InvalidRequest: a file cannot be written.
        """
        return save_page(Path(path), self.report())

    def open(self) -> Path:
        """Show the report in the browser; return the temporary file that holds it."""
        return open_page(self.report(), self.id)

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with one row per item, in planned order.

        Raises:
            InvalidRequest: pandas is not installed.
        """
        return data_frame(self.items())

    def image(self, ref: str) -> bytes:
        """Return one of the run's images as PNG."""
        return self._sender.send(image_call(ref))

    def audit(self, store: str | Path | None = None) -> Audit:
        """Recompute the run's invariants from what the gateway answers, and from the store if it is at hand.

        That every item is counted and has one final state; that the list of items and the results agree; that
        each image is served, and carries the mark of a synthetic one; and that its stored bytes match its
        digest.

        Args:
            store: the folder of the store, ``store`` in the state folder of a Counterpose on this machine;
                None asks the gateway alone, which checks the digest of each image that it serves.

        Raises:
            InvalidRequest: the run has not ended, or there is no store in the folder.
        """
        auditing = Auditing(self.refresh().run, store)
        with auditing.reading("accounting"):
            for event in self._events(EventStream(self._calls, self.run, last=0)):
                auditing.event(event)
        with auditing.reading("exactly-once"):
            for item in self.items():
                auditing.item(item)
            for item in self.results():
                auditing.result(item)
        for ref in auditing.images():
            try:
                auditing.image(ref, self.image(ref))
            except (ArtifactMissing, ArtifactCorrupt) as error:
                auditing.unread(ref, error)
        return auditing.ended(self.refresh().run)

    def cancel(self) -> Self:
        """Cancel the run; finished items are kept."""
        self.run = self._sender.send(self._calls.cancel(self.id))
        return self

    def resume(self) -> Self:
        """Retry the failed and cancelled items."""
        self.run = self._sender.send(self._calls.resume(self.id))
        return self

    def rename(self, name: str | None) -> Self:
        """Give the run a name for listings and pages, or take it away; its id stays."""
        self.run = self._sender.send(self._calls.rename(self.id, name))
        return self

    def delete(self) -> None:
        """Delete the run, which must have ended; images that nothing else has go within hours.

        Raises:
            RunNotDeletable: it has not ended, or it is part of the evidence of a run that exists.
        """
        self._sender.send(self._calls.delete(self.id))


AnyRun = RunHandle[Any, Any]
"""A run of any kind."""


class AsyncRunHandle(_Handle[AnyItem, Summary]):
    """A run, followed by awaitable calls."""

    def __init__(self, sender: AsyncSender, run: Run) -> None:
        super().__init__(run)
        self._sender = sender

    @property
    def page(self) -> str:
        """The address of the run's page, for a browser."""
        return f"{self._sender.address}/ui/runs/{self.id}"

    async def refresh(self) -> Self:
        """Fetch the run's current state."""
        self.run = await self._sender.send(self._calls.get(self.id))
        return self

    async def events(self) -> AsyncIterator[RunEvent]:
        """Yield progress events until the run ends; as `RunHandle.events`."""
        async for event in self._events(EventStream(self._calls, self.run)):
            yield event
        await self.refresh()

    async def _events(self, following: EventStream) -> AsyncIterator[RunEvent]:
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

    async def wait(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - the server does the waiting
        *,
        progress: bool = False,
    ) -> Self:
        """Wait until the run has ended; as `RunHandle.wait`."""
        with shown_if(progress) as show:
            for call in self._waits(timeout, progress):
                if self.ended:
                    break
                self.run = await self._sender.send(call)
                show(self.run)
        return self

    async def summary(self) -> Summary:
        """Return the summary: each figure with its interval and n."""
        return await self._sender.send(self._calls.summary(self.id))

    async def items(self) -> AsyncIterator[AnyItem]:
        """Yield every planned item in order, page by page."""
        async for page in pages_async(self._sender, partial(self._calls.items, self.id)):
            for item in page.items:
                yield item

    async def item(self, item_id: str) -> AnyItem:
        """Return one item."""
        return await self._sender.send(self._calls.one_item(self.id, item_id))

    async def results(self) -> AsyncIterator[AnyItem]:
        """Yield every finished item in order; as `RunHandle.results`."""
        reading = Results(self._calls, self.id)
        while not reading.whole():
            with reading.one_stream():
                async with self._sender.stream(reading.call()) as response:
                    async for data in response.aiter_bytes():
                        for item in reading.take(data):
                            yield item
            if not reading.whole():
                await self._sender.send(reading.poll_call())

    async def report(self) -> str:
        """Return the report as one HTML file."""
        return await self._sender.send(self._calls.report(self.id))

    async def share(self, *, expires_in: float = 86_400.0) -> str:
        """Return a link to the report; as `RunHandle.share`."""
        return (
            f"{self._sender.address}{(await self._sender.send(self._calls.share(self.id, expires_in))).url}"
        )

    async def save_report(self, path: str | Path) -> Path:
        """Write the report to a file; as `RunHandle.save_report`."""
        return save_page(Path(path), await self.report())

    async def open(self) -> Path:
        """Show the report in the browser; as `RunHandle.open`."""
        return open_page(await self.report(), self.id)

    async def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with one row per item; as `RunHandle.to_pandas`."""
        return data_frame([item async for item in self.items()])

    async def image(self, ref: str) -> bytes:
        """Return one of the run's images as PNG."""
        return await self._sender.send(image_call(ref))

    async def audit(self, store: str | Path | None = None) -> Audit:
        """Recompute the run's invariants; as `RunHandle.audit`."""
        auditing = Auditing((await self.refresh()).run, store)
        with auditing.reading("accounting"):
            async for event in self._events(EventStream(self._calls, self.run, last=0)):
                auditing.event(event)
        with auditing.reading("exactly-once"):
            async for item in self.items():
                auditing.item(item)
            async for item in self.results():
                auditing.result(item)
        for ref in auditing.images():
            try:
                auditing.image(ref, await self.image(ref))
            except (ArtifactMissing, ArtifactCorrupt) as error:
                auditing.unread(ref, error)
        return auditing.ended((await self.refresh()).run)

    async def cancel(self) -> Self:
        """Cancel the run; finished items are kept."""
        self.run = await self._sender.send(self._calls.cancel(self.id))
        return self

    async def resume(self) -> Self:
        """Retry the failed and cancelled items."""
        self.run = await self._sender.send(self._calls.resume(self.id))
        return self

    async def rename(self, name: str | None) -> Self:
        """Give the run a name for listings and pages, or take it away; its id stays."""
        self.run = await self._sender.send(self._calls.rename(self.id, name))
        return self

    async def delete(self) -> None:
        """Delete the run, which must have ended; as `RunHandle.delete`."""
        await self._sender.send(self._calls.delete(self.id))
