"""The bug hunt (Wiles et al.) as a method of the gateway."""

from __future__ import annotations

from collections.abc import Iterable

from counterpose_core.contract.bug_hunt_summary import BugHuntSummary
from counterpose_core.contract.bug_hunts import BugHuntConfig, BugHuntCreate, HuntItem
from counterpose_core.contract.runs import Run
from counterpose_core.errors import PriceMissing
from counterpose_gateway.methods.bug_hunt.estimate import most_captions
from counterpose_gateway.methods.bug_hunt.hunted_items import read_items
from counterpose_gateway.methods.bug_hunt.phases import next_stage
from counterpose_gateway.methods.bug_hunt.plan import plan
from counterpose_gateway.methods.bug_hunt.process import process
from counterpose_gateway.methods.bug_hunt.report import render
from counterpose_gateway.methods.bug_hunt.summary import summarize
from counterpose_gateway.runs.context import RecordedRuns
from counterpose_gateway.runs.method import Headline, Method, OfSummary
from counterpose_gateway.runs.stages import StagePlan, StageResults


def _next_stage(run: Run, results: StageResults) -> StagePlan | None:
    return next_stage(run, read_items(results.recorded()))


def _summarize(run: Run, items: Iterable[HuntItem], view: None, context: RecordedRuns) -> BugHuntSummary:
    # Not by models, which take ten times as long: a hunt may have 100,000 images.
    return summarize(run, read_items(context.ledger.items.recorded(run.id)))


def _headline(summary: BugHuntSummary) -> Headline:
    return Headline(summary.verdict.partition("\n")[0], summary.bugs[0].state if summary.bugs else "")


def _most_items(run: Run) -> int:
    config = BugHuntConfig.model_validate(run.resolved_config)
    captions = most_captions(config.request, config.shares.varied)
    return max(run.request_counts.total, config.request.budget.images + captions)


BUG_HUNT = Method(
    kind="bug-hunt",
    needs=("captioner", "editor", "scorer", "classifiers"),
    abilities=("draw",),
    create=BugHuntCreate,
    item=HuntItem,
    summary=BugHuntSummary,
    plan=plan,
    process=process,
    summarize=_summarize,
    report=OfSummary(render),
    headline=_headline,
    problems=(PriceMissing,),
    next_stage=_next_stage,
    most_items=_most_items,
)
