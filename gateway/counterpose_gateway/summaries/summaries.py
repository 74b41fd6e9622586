"""Summaries and reports of runs of every method, remade only when the run has changed.

In the gateway the processes of `JoinedWork` make them, once for all who ask; elsewhere the caller's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Hashable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from counterpose_core.contract.runs import CommonestFailure, RunItem, RunSummary
from counterpose_core.errors import InternalError
from counterpose_gateway.runs.context import ItemsOfRun, RecordedRuns, RunContext
from counterpose_gateway.runs.method import Method
from counterpose_gateway.summaries.joined import Task

ItemT = TypeVar("ItemT", bound=RunItem[Any])
SummaryT = TypeVar("SummaryT", bound=BaseModel)
ViewT = TypeVar("ViewT")
V = TypeVar("V")

KEPT = 32
"""Summaries in memory; a bootstrap of 2,000 draws takes seconds, so the last ones are kept."""


@dataclass(frozen=True)
class Summary(Generic[ItemT, SummaryT, ViewT]):
    """The task of summing up a run."""

    method: Method[Any, ItemT, SummaryT, ViewT]
    run_id: str
    view: ViewT

    def __call__(self, runs: RecordedRuns) -> SummaryT:
        """Sum up the run as it stands."""
        # A process that sums up sees all; a dataset's name means one of the run's tenant.
        mine = runs.of_run(self.run_id)
        items = mine.ledger.items.of(self.run_id, self.method.item)
        summary = self.method.summarize(mine.ledger.runs.get(self.run_id), items, self.view, mine)
        summary = _with_failure(summary, mine.ledger.items.commonest_failure(self.run_id))
        spending = mine.ledger.spending.of(self.run_id)
        if spending is None or not isinstance(summary, RunSummary):
            return summary
        return summary.model_copy(update={"spending": spending})

    def state(self, runs: RecordedRuns) -> tuple[Hashable, ...]:
        """Return what the summary depends on; raises `NotFound`."""
        # A run changes only with an event, a revision or its account, so these identify its state. They are
        # read before the items: after a step in between, the next call sums up again and serves nothing old.
        event, spending = runs.ledger.events.last(self.run_id).id, runs.ledger.spending.of(self.run_id)
        account = None if spending is None else spending.model_dump_json()
        return (self.run_id, event, self.method.revision(self.run_id, runs), account, self.view)


def _with_failure(summary: SummaryT, failure: CommonestFailure | None) -> SummaryT:
    """Let a summary say why most of the failed items failed, behind its verdict, or among its notes."""
    if failure is None or not isinstance(summary, RunSummary):
        return summary
    told: dict[str, Any] = {"failure": failure}
    if isinstance(verdict := getattr(summary, "verdict", None), str):
        told["verdict"] = f"{verdict}\n{failure}"
    else:
        told["notes"] = [str(failure), *getattr(summary, "notes", [])]
    return summary.model_copy(update=told)


@dataclass(frozen=True)
class Report(Generic[ItemT, SummaryT, ViewT]):
    """The task of writing the report of a run; it sums the run up first, unless its summary is kept."""

    summing: Summary[ItemT, SummaryT, ViewT]
    kept: SummaryT | None = None

    def __call__(self, runs: RecordedRuns) -> str:
        """Write the report."""
        run_id, method = self.summing.run_id, self.summing.method
        summary = self.summing(runs) if self.kept is None else self.kept
        items = ItemsOfRun(runs.ledger, run_id, method.item, runs.columns)
        return method.report(summary, runs.ledger.runs.get(run_id), items, runs.store.get)


def summary_of(
    method: Method[Any, ItemT, SummaryT, ViewT], run_id: str, view: ViewT, context: RunContext
) -> SummaryT:
    """Return the current figures of a run.

    Args:
        method: The method of the run.
        run_id: The run.
        view: The reader's choice, such as a percentile; None if the method has no choice.
        context: The stores of the run's items.

    Raises:
        NotFound: the run does not exist.
        InternalError: the process that summed it up was ended.
    """
    task = Summary(method, run_id, view)
    return _made(task.state(context), task, context)


async def awaited_summary(
    method: Method[Any, ItemT, SummaryT, ViewT], run_id: str, view: ViewT, context: RunContext
) -> SummaryT:
    """Return the same as `summary_of` without holding a thread; to cancel it is to wait no more."""
    task = Summary(method, run_id, view)
    return await _awaited(await asyncio.to_thread(task.state, context), task, context)


async def awaited_report(
    method: Method[Any, ItemT, SummaryT, ViewT],
    run_id: str,
    view: ViewT,
    context: RunContext,
    *,
    keep: bool = False,
) -> str:
    """Return the report of a run as one HTML document, made of the summary that `summary_of` returns.

    It holds no thread; to cancel it is to wait no more. ``keep``: whether later callers who say so get the
    same document while the run does not change.

    Raises:
        NotFound: the run does not exist.
        InternalError: the process that wrote it was ended.
    """
    summing = Summary(method, run_id, view)
    state = await asyncio.to_thread(summing.state, context)
    key = ("report", *state)

    def write() -> Awaitable[str]:
        results = context.cache if context.joined is None else context.joined
        return _awaited(key, Report(summing, results.kept(state)), context, keep=False)

    return await (context.cache.get_async(key, write) if keep else write())


def _made(key: Hashable, task: Task[V], context: RunContext, *, keep: bool = True) -> V:
    if context.joined is None:
        return context.cache.get(key, lambda: task(context)) if keep else task(context)
    with context.joined.asked(key, task, keep=keep, caller=context.ledger.tenant) as future:
        return _found(future)


async def _awaited(key: Hashable, task: Task[V], context: RunContext, *, keep: bool = True) -> V:
    if context.joined is None:
        return await asyncio.to_thread(_made, key, task, context, keep=keep)
    with context.joined.asked(key, task, keep=keep, caller=context.ledger.tenant) as future:
        await _done(future)
        return _found(future)


def _found(future: Future[V]) -> V:
    try:
        return future.result()
    except CancelledError:
        # Only the end of the gateway cancels what somebody waits for.
        raise InternalError("the gateway is stopping; ask again when it is back") from None


async def _done(future: Future[Any]) -> None:
    """Wait for a future of another thread; not by `wrap_future`, whose cancelling reaches who else waits."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: Future[Any]) -> None:
        try:
            loop.call_soon_threadsafe(done.set)
        except RuntimeError:
            # The loop was closed: nobody waits.
            return

    future.add_done_callback(tell)
    await done.wait()
