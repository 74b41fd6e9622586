"""What a run shows, in one sentence and, for a stress test, one state."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock

from pydantic import BaseModel

from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from counterpose_core.contract.bug_hunt_summary import BugHuntSummary
from counterpose_core.contract.dataset_interfaces import DatasetInterfaceSummary
from counterpose_core.contract.gates import GateSummary
from counterpose_core.contract.runs import Run
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.contract.transfers import TransferSummary
from counterpose_core.shift_benchmark.object_thresholds import OBJECT_PERCENTILE
from counterpose_core.types import FINAL_RUN_STATES, RunKind
from counterpose_gateway.methods import METHODS
from counterpose_gateway.methods.dataset_interface.report import headline as interface_headline
from counterpose_gateway.methods.shift_benchmark.report.first_screen import headline as benchmark_headline
from counterpose_gateway.reports.states import BADGES
from counterpose_gateway.routes.context import GatewayContext
from counterpose_gateway.runs.summaries import summary_of

VIEWS: dict[RunKind, float] = {"shift-benchmark": OBJECT_PERCENTILE}
"""The reader's choice that pages show, of methods that have one."""

PATIENCE_SECONDS = 1.0
"""For which a list waits for headlines: a summary takes a second, and the list is asked for again soon."""

_KEPT = 2000


@dataclass(frozen=True)
class Headline:
    """A run in one sentence; ``state`` and ``badge`` are of the worst verdict, empty where there is none."""

    sentence: str
    state: str = ""
    badge: str = ""


def headline_of(summary: BaseModel) -> Headline | None:
    """The headline of a summary, or None of a method that has none."""
    match summary:
        case StressTestSummary():
            sentence = summary.verdict.partition("\n")[0]
            worst = summary.verdicts[0].state if summary.verdicts else ""
            return Headline(sentence, worst, BADGES.get(worst, ""))
        case DatasetInterfaceSummary():
            return Headline(interface_headline(summary))
        case ShiftBenchmarkSummary():
            return Headline(benchmark_headline(summary))
        case BugHuntSummary():
            state = summary.bugs[0].state if summary.bugs else ""
            return Headline(summary.verdict, state, BADGES.get(state, ""))
        case AdversarialDatasetSummary() | TransferSummary() | GateSummary():
            return Headline(summary.verdict)
        case _:
            return None


def summary_for(run: Run, context: GatewayContext) -> BaseModel:
    """The summary of a run of any kind, as its report shows it; raises `NotFound`."""
    summary = summary_of(METHODS[run.kind], run.id, VIEWS.get(run.kind), context)
    assert isinstance(summary, BaseModel)  # the summary of every method is one
    return summary


class Headlines:
    """Headlines of ended runs, each computed once; they are short, so that thousands are kept."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Headline | None] = OrderedDict()
        self._lock = Lock()

    def of(self, runs: list[Run], context: GatewayContext) -> dict[str, Headline]:
        """The headlines of runs by id, as far as they are known after `PATIENCE_SECONDS`."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        ended = [run for run in runs if run.state in FINAL_RUN_STATES and run.request_counts.done]
        found = {run.id: self._look_up(run, context, deadline) for run in ended}
        return {run_id: headline for run_id, headline in found.items() if headline is not None}

    def _look_up(self, run: Run, context: GatewayContext, deadline: float) -> Headline | None:
        # A resumed run ends at another time; a benchmark's figures also change with each decision on it.
        key = (run.id, run.ended_at, METHODS[run.kind].revision(run.id, context))
        with self._lock:
            if key in self._known:
                return self._known[key]
        if time.monotonic() > deadline:
            return None
        headline = headline_of(summary_for(run, context))
        with self._lock:
            self._known[key] = headline
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return headline
