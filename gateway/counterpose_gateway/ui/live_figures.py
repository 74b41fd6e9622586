"""The figures of a run that is going: seconds of work, so they are summed up now and then, and shared."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from pydantic import BaseModel

from counterpose_core.contract.runs import Run
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_gateway.methods.stress_test.summary.hints import change_key
from counterpose_gateway.routes.context import GatewayContext
from counterpose_gateway.ui.headlines import summary_for
from counterpose_gateway.ui.listed_findings import findings_under_test

LEAST_AGE_SECONDS = 8.0
"""For which figures are shown before they are summed up again."""

SHARE_OF_TIME = 0.2
"""Of a processor that the figures of one run may take: it is the worker's to make more of them."""

_KEPT = 8


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
                while len(self._known) > _KEPT:
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
