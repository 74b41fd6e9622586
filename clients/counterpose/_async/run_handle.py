"""A run of any kind by its id: follow it, wait for it, read it. Waiting survives lost connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, Self

from httpx_sse import EventSource

from counterpose._async.paging import pages
from counterpose._audit import Audit, Auditing
from counterpose._exports import ExportLayout, check_export, unpacked
from counterpose._files import open_page, save_page
from counterpose._frames import data_frame
from counterpose._notebook import async_first_screen
from counterpose._progress import PROGRESS_SLICE_S, shown_if
from counterpose._python_function.model import AnyClassifier
from counterpose._run_calls import WAIT_SLICE_S, AnyItem, Params, RunCalls, Summary, failure_of, image_call
from counterpose._run_streams import EventStream, Results
from counterpose._transport_protocol import AsyncSender
from counterpose_core.contract.field_errors import checked
from counterpose_core.contract.runs import Provenance, Run, RunEvent, RunItem, RunSummary
from counterpose_core.contract.spending import LargerLimits
from counterpose_core.errors import ArtifactCorrupt, ArtifactMissing
from counterpose_core.types import FINAL_RUN_STATES, RunState


class AsyncRunHandle(Generic[AnyItem, Summary]):
    """A run, followed by awaitable calls; each kind of run has its own ``_calls``."""

    _calls: RunCalls[AnyItem, Summary]

    def __init__(self, sender: AsyncSender, run: Run) -> None:
        self._sender = sender
        self.run = run

    @property
    def id(self) -> str:
        """The run's id, which ``get`` takes."""
        return self.run.id

    @property
    def state(self) -> RunState:
        """The run's state when it was last fetched."""
        return self.run.state

    @property
    def parent(self) -> str | None:
        """The id of the ended run that this one continues, such as the one whose finding it proves."""
        return self.run.parent

    @property
    def ended(self) -> bool:
        """Whether the run had ended when it was last fetched."""
        return self.run.state in FINAL_RUN_STATES

    @property
    def page(self) -> str:
        """The address of the run's page, for a browser."""
        return f"{self._sender.address}/ui/runs/{self.id}"

    _repr_html_ = async_first_screen

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.run.id!r}, state={self.run.state!r})"

    async def refresh(self) -> Self:
        """Fetch the run's current state."""
        self.run = await self._sender.send(self._calls.get(self.id))
        return self

    async def events(self) -> AsyncIterator[RunEvent]:
        """Yield progress events until the run ends.

        A broken stream continues after the last event. Where no stream can be opened, the run is polled and
        changes are yielded as events under the last id seen.

        Raises:
            BackendError: the gateway stayed unreachable for longer than the client retries.
        """
        async for event in self._events(EventStream(self._calls, self.run)):
            yield event
        # An event has counts only: when and why the run ended is in the run itself.
        await self.refresh()

    async def _events(self, following: EventStream) -> AsyncIterator[RunEvent]:
        while not following.ended():
            with following.one_stream():
                async with self._sender.stream(following.call()) as response:
                    async for sent in EventSource(response).aiter_sse():
                        if (event := following.take(sent.data)) is not None:
                            yield event
                        # The gateway closes its stream now, but a proxy may keep it open for minutes.
                        if following.ended():
                            break
            if following.stalled():
                polled = await self._sender.send(following.poll_call())
                if (event := following.polled(polled)) is not None:
                    yield event

    async def wait(self, timeout: float | None = None, *, progress: bool = False, check: bool = True) -> Self:
        """Wait until the run has ended, at most for ``timeout`` seconds.

        Args:
            timeout: seconds; None waits to the end.
            progress: show how far the run is by a line on standard error, or by a bar in a notebook.
            check: raise what ended a failed run; a run of which some items failed is none.

        Raises:
            CounterposeError: the run failed, by the error that its problem names, such as
                `ImagesOutsideSuite`.
        """
        with shown_if(progress) as show:
            await self._wait(show, timeout, PROGRESS_SLICE_S if progress else WAIT_SLICE_S)
        if check and (failure := failure_of(self.run)) is not None:
            raise failure
        return self

    async def _wait(self, show: Callable[[Run], None], timeout: float | None, slice_s: float) -> None:
        """Wait for the end, and show the run at least once in ``slice_s`` seconds."""
        for call in self._calls.waits(self.id, timeout, slice_s=slice_s):
            if self.ended:
                break
            self.run = await self._sender.send(call)
            show(self.run)

    async def summary(self) -> Summary:
        """Return the summary: each figure with its interval and n."""
        return await self._sender.send(self._calls.summary(self.id))

    async def items(self) -> AsyncIterator[AnyItem]:
        """Yield every planned item in order, page by page."""
        async for page in pages(self._sender, partial(self._calls.items, self.id)):
            for item in page.items:
                yield item

    async def item(self, item_id: str) -> AnyItem:
        """Return one item."""
        return await self._sender.send(self._calls.one_item(self.id, item_id))

    async def results(self) -> AsyncIterator[AnyItem]:
        """Yield every finished item in order from one stream, and verify its checksum at the end.

        A broken stream continues after the last item.

        Raises:
            BadBackendOutput: the results do not match their checksum.
            BackendError: the gateway stayed unreachable for longer than the client retries.
        """
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
        """Return a link to the report that needs no key, for ``expires_in`` seconds: from 60 to a week."""
        signed = await self._sender.send(self._calls.share(self.id, expires_in))
        return f"{self._sender.address}{signed.url}"

    async def save_report(self, path: str | Path) -> Path:
        """Write the report to an HTML file, or into a folder as ``report.html``; return the file's path.

        What the report holds for download is written beside it: of a stress test its first screen as
        Markdown, and its findings as CSV.

        Raises:
            InvalidRequest: a file cannot be written.
        """
        return save_page(Path(path), await self.report())

    async def open(self) -> Path:
        """Show the report in the browser; return the temporary file that holds it."""
        return open_page(await self.report(), self.id)

    async def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with one row per item, in planned order.

        Raises:
            InvalidRequest: pandas is not installed.
        """
        return data_frame([item async for item in self.items()])

    async def image(self, ref: str) -> bytes:
        """Return one of the run's images as PNG."""
        return await self._sender.send(image_call(ref))

    async def audit(self, store: str | Path | None = None) -> Audit:
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
        await self.refresh()
        auditing = Auditing(self.run, store)
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
        await self.refresh()
        return auditing.ended(self.run)

    async def cancel(self) -> Self:
        """Cancel the run; finished items are kept."""
        self.run = await self._sender.send(self._calls.cancel(self.id))
        return self

    async def resume(
        self,
        *,
        classifiers: Sequence[AnyClassifier] = (),
        spending: Mapping[str, float] | LargerLimits | None = None,
    ) -> Self:
        """Retry the failed and cancelled items.

        Args:
            classifiers: the run's functions and models, by the names that they had, which this client serves
                from now on; needed where the program that served them has ended.
            spending: a new budget of the whole run, ``images`` or ``usd``; needed where it stopped at one.

        Raises:
            InvalidRequest: the run has no classifier of such a name that a program served, or no such budget.
            BudgetSpent: it stopped at its budget, and gets no larger one.
            RunNotResumable: it has not ended, or every item ended well.
        """
        named = self._sender.name_functions(self._sender.serve_functions(classifiers))
        limits = checked(LargerLimits, dict(spending)) if spending else None
        self.run = await self._sender.send(self._calls.resume(self.id, named.functions, limits))
        return self

    async def rename(self, name: str | None) -> Self:
        """Give the run a name for listings and pages, or take it away; its id stays."""
        self.run = await self._sender.send(self._calls.rename(self.id, name))
        return self

    async def delete(self) -> None:
        """Delete the run, which must have ended; images that nothing else has go within hours.

        Raises:
            RunNotDeletable: it has not ended, or it is part of the evidence of a run that exists.
        """
        await self._sender.send(self._calls.delete(self.id))


AsyncAnyRun = AsyncRunHandle[Any, Any]
"""A run of any kind."""


class AsyncUnknownRun(AsyncRunHandle[RunItem[Provenance], RunSummary]):
    """A run of a kind that only another version knows: of its items and figures, what all kinds have."""

    # It is read and never created.
    _calls = RunCalls("unknown", RunItem[Provenance], RunSummary)  # type: ignore[arg-type]


class AsyncExportedRun(AsyncRunHandle[AnyItem, Summary]):
    """A run whose images can be exported as a dataset that other tools read."""

    async def export(
        self, folder: str | Path, *, layout: ExportLayout = "imagefolder", dropped: bool = False
    ) -> Path:
        """Write the kept images to a new ``folder``, with provenance and a dataset card.

        Every generated image is marked as synthetic in its metadata. The folder is written completely or not
        at all.

        Args:
            folder: created; it must not exist, or be empty.
            layout: how the images and their metadata are stored.
            dropped: also export images that a filter dropped.

        Raises:
            InvalidRequest: the folder is not empty, or cannot be written.
            DatasetEmpty: no image was kept.
        """
        return await self._exported(folder, layout, dropped=dropped)

    async def _exported(
        self, folder: str | Path, layout: ExportLayout, view: Params | None = None, **wanted: bool
    ) -> Path:
        target = Path(folder)
        check_export(layout, target)
        chosen = {name: "true" for name, is_wanted in wanted.items() if is_wanted}
        call = self._calls.export(self.id, {"layout": layout, **chosen, **(view or {})})
        with unpacked(target) as archive:
            async with self._sender.stream(call) as response:
                async for data in response.aiter_bytes():
                    archive.write(data)
        return target
