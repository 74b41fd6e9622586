"""The bug hunt (Wiles et al.) as a method of the gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from counterpose_core.contract.bug_hunt_summary import BugHuntSummary
from counterpose_core.contract.bug_hunts import HuntItem
from counterpose_core.contract.runs import Run
from counterpose_core.types import RunKind
from counterpose_gateway.methods.bug_hunt.hunted_items import read_items
from counterpose_gateway.methods.bug_hunt.plan import plan
from counterpose_gateway.methods.bug_hunt.process import process
from counterpose_gateway.methods.bug_hunt.report import render
from counterpose_gateway.methods.bug_hunt.stages import next_stage
from counterpose_gateway.methods.bug_hunt.summary import summarize
from counterpose_gateway.runs.context import RecordedRuns
from counterpose_gateway.runs.method import FiguresOfEvents
from counterpose_gateway.runs.stages import StagePlan, StageResults


class BugHunt(FiguresOfEvents):
    """The method of bug hunts; `counterpose_gateway.runs.method.Method` says what each function does."""

    kind: RunKind = "bug-hunt"
    item = HuntItem

    plan = staticmethod(plan)
    process = staticmethod(process)

    def next_stage(self, run: Run, results: StageResults) -> StagePlan | None:
        """Plan captions, rounds of descriptions, and held-out images of the winners."""
        return next_stage(run, read_items(results.recorded()))

    def summarize(
        self, run: Run, items: Iterable[HuntItem], view: None, context: RecordedRuns
    ) -> BugHuntSummary:
        """Sum up baseline rates, descriptions and bugs."""
        # Not by models, which take ten times as long: a hunt may have 100,000 images.
        return summarize(run, read_items(context.ledger.recorded_items(run.id)))

    def report(
        self,
        summary: BugHuntSummary,
        run: Run,
        items: Iterable[HuntItem],
        read_image: Callable[[str], bytes],
    ) -> str:
        """Write the report: the bugs first, with images, then every rate."""
        return render(summary, run, read_image)


BUG_HUNT = BugHunt()
