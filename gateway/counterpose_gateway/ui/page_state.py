"""What the pages keep in memory: headlines of ended runs, figures and parts of runs that are going.

What ended runs show, each in one sentence and, where there are verdicts, the state of the worst.

The figures of a run that is going: seconds of work, so they are summed up now and then, and shared.

The changing part of a run's page, made once for all who have the page open.

The findings that a stress test lists, with the numbers by which pages and commands name them.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Annotated

from fastapi import Depends, Request
from pydantic import BaseModel

from counterpose_core.contract.findings import Finding
from counterpose_core.contract.runs import Run
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_core.errors import NotFound
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.methods import METHODS
from counterpose_gateway.methods.stress_test.columns import read_columns
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.methods.stress_test.report.findings import findings_of
from counterpose_gateway.methods.stress_test.summary.findings import under_test
from counterpose_gateway.methods.stress_test.summary.hints import change_key
from counterpose_gateway.progress.following import LOOK_SECONDS
from counterpose_gateway.routes.context import GatewayContext
from counterpose_gateway.runs.method import Headline
from counterpose_gateway.summaries.summaries import summary_of

_PARTS = 32


@dataclass(frozen=True)
class _Part:
    html: str
    tag: str
    made_at: float

    def is_fresh(self, tag: str) -> bool:
        # Of an unchanged run the figures alone may be newer, which are summed up again after a while.
        age = time.monotonic() - self.made_at
        return age < (LEAST_AGE_SECONDS if tag == self.tag else LOOK_SECONDS)


class LiveParts:
    """The last part that was made for each run that someone watches."""

    def __init__(self) -> None:
        self._parts: OrderedDict[str, _Part] = OrderedDict()
        self._making: dict[str, asyncio.Task[str]] = {}

    async def of(self, run_id: str, tag: str, make: Callable[[], str]) -> str:
        """Return the part of a run: the last one while it is fresh or the next one is being made.

        Args:
            run_id: the run.
            tag: the ETag of its status, which tells whether it has changed.
            make: makes the part, in a thread.
        """
        known = self._parts.get(run_id)
        if known is not None and (known.is_fresh(tag) or run_id in self._making):
            return known.html
        if run_id not in self._making:
            self._making[run_id] = asyncio.create_task(self._make(run_id, tag, make))
        # Whoever leaves must not take it from the others.
        return await asyncio.shield(self._making[run_id])

    async def _make(self, run_id: str, tag: str, make: Callable[[], str]) -> str:
        try:
            html = await asyncio.to_thread(make)
            self._parts.pop(run_id, None)
            self._parts[run_id] = _Part(html, tag, time.monotonic())
            if len(self._parts) > _PARTS:
                self._parts.popitem(last=False)
            return html
        finally:
            del self._making[run_id]


LEAST_AGE_SECONDS = 8.0
"""For which figures are shown before they are summed up again."""

SHARE_OF_TIME = 0.2
"""Of a processor that the figures of one run may take: it is the worker's to make more of them."""

_FIGURES = 8


@dataclass(frozen=True)
class _Figures:
    summary: BaseModel
    ended: int
    made_at: float
    took: float


class LiveFigures:
    """The last summary of each run that someone watches."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Figures] = OrderedDict()
        self._lock = Lock()
        self._summing = Lock()

    def of(self, run: Run, context: GatewayContext) -> BaseModel | None:
        """The figures of a run, up to a few seconds old; None while nothing has ended, or is summed up."""
        ended = run.request_counts.total - run.request_counts.pending
        with self._lock:
            known = self._known.get(run.id)
        if not run.request_counts.done or (known is not None and self._is_fresh(known, ended)):
            return None if known is None else known.summary
        # One at a time: whoever finds another one at work shows what there is.
        if not self._summing.acquire(blocking=False):
            return None if known is None else known.summary
        try:
            started = time.monotonic()
            summary = _so_far(run, context)
            now = time.monotonic()
            with self._lock:
                self._known[run.id] = _Figures(summary, ended, now, now - started)
                while len(self._known) > _FIGURES:
                    self._known.popitem(last=False)
            return summary
        finally:
            self._summing.release()

    def _is_fresh(self, known: _Figures, ended: int) -> bool:
        rest = max(LEAST_AGE_SECONDS, known.took / SHARE_OF_TIME)
        return known.ended == ended or time.monotonic() - known.made_at < rest


def _so_far(run: Run, context: GatewayContext) -> BaseModel:
    """The summary of a run that goes on, in which what it tests right now comes first."""
    summary = summary_for(run, context)
    if not isinstance(summary, StressTestSummary) or run.stage == 1:
        return summary
    tested = findings_under_test(run, context)
    tested_keys = {change_key(finding) for finding in tested}
    others = [finding for finding in summary.findings if change_key(finding) not in tested_keys]
    return summary.model_copy(update={"findings": [*tested, *others]})


PATIENCE_SECONDS = 1.0
"""For which a list waits for headlines: a summary takes a second, and the list is asked for again soon."""

_HEADLINES = 2000


def summary_for(run: Run, context: GatewayContext) -> BaseModel:
    """The summary of a run of any kind, as its report shows it; raises `NotFound`."""
    method = METHODS[run.kind]
    summary = summary_of(method, run.id, method.view({}), context)
    assert isinstance(summary, BaseModel)  # the summary of every method is one
    return summary


def _has_results(run: Run) -> bool:
    return run.kind in METHODS and bool(run.request_counts.done or run.request_counts.failed)


class Headlines:
    """Headlines of ended runs, each computed once; they are short, so that thousands are kept."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Headline] = OrderedDict()
        self._lock = Lock()

    def of(self, runs: list[Run], context: GatewayContext) -> dict[str, Headline]:
        """The headlines of runs by id, as far as they are known after `PATIENCE_SECONDS`."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        ended = [run for run in runs if run.state in FINAL_RUN_STATES and _has_results(run)]
        found = {run.id: self._look_up(run, context, deadline) for run in ended}
        return {run_id: headline for run_id, headline in found.items() if headline is not None}

    def _look_up(self, run: Run, context: GatewayContext, deadline: float) -> Headline | None:
        # A resumed run ends at another time; a benchmark's figures also change with each decision on it.
        method = METHODS[run.kind]
        key = (run.id, run.ended_at, method.revision(run.id, context))
        with self._lock:
            if key in self._known:
                return self._known[key]
        if time.monotonic() > deadline:
            return None
        headline = method.headline(summary_for(run, context))
        with self._lock:
            self._known[key] = headline
            while len(self._known) > _HEADLINES:
                self._known.popitem(last=False)
        return headline


class PageState:
    """The memory of the pages of one application."""

    def __init__(self) -> None:
        self.headlines = Headlines()
        self.live = LiveFigures()
        self.parts = LiveParts()


async def _state_of(request: Request) -> PageState:
    state = request.app.state.pages
    assert isinstance(state, PageState)  # `create_app` put it there
    return state


Pages = Annotated[PageState, Depends(_state_of)]


def listed_findings(
    run: Run, context: GatewayContext, summary: StressTestSummary | None = None
) -> list[Finding]:
    """The findings of a run as its report numbers them; of the ``summary`` given, or of the current one."""
    if run.kind != STRESS_TEST.kind:
        return []
    figures = summary or summary_of(STRESS_TEST, run.id, None, context)
    if figures.findings:
        return list(figures.findings)
    key = ("findings", run.id, context.ledger.events.last(run.id).id)
    return context.cache.get(key, lambda: findings_of(figures, read_columns(run, context.ledger)))


def findings_under_test(run: Run, context: GatewayContext) -> list[Finding]:
    """The changes that a stress test tests while it goes on, as far as its screen has seen them."""
    config = StressTestConfig.model_validate(run.resolved_config)
    columns = read_columns(run, context.ledger, context.columns)
    return under_test(run, columns, config)


def finding_of(run: Run, number: int, context: GatewayContext) -> Finding:
    """One finding by its number.

    Raises:
        NotFound: the run has no such finding.
    """
    found = listed_findings(run, context)
    for finding in found:
        if finding.number == number:
            return finding
    raise NotFound(f"run {run.id!r} has no finding {number}: it has {len(found)}")
