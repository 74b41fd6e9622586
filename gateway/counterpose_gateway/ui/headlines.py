"""What ended runs show, each in one sentence and, where there are verdicts, the state of the worst."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock

from pydantic import BaseModel

from counterpose_core.contract.runs import Run
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.methods import METHODS
from counterpose_gateway.routes.context import GatewayContext
from counterpose_gateway.runs.method import Headline
from counterpose_gateway.summaries.summaries import summary_of

PATIENCE_SECONDS = 1.0
"""For which a list waits for headlines: a summary takes a second, and the list is asked for again soon."""

_KEPT = 2000


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
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return headline
