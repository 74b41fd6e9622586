"""The gateway's answers about a bug hunt: its run and its figures."""

from __future__ import annotations

from counterpose_core.contract.bug_hunt_summary import BugHuntSummary
from counterpose_core.contract.bug_hunts import BugHuntConfig, BugHuntCreate, HuntShares
from counterpose_core.contract.editor import GenerationPreset
from counterpose_core.contract.runs import Run
from counterpose_core.types import Cost, RunState
from fakes.sdk import a_run, counts


def a_hunt_run(state: RunState = "queued", done: int = 0) -> Run:
    """A hunt."""
    return a_run(state, done).model_copy(update={"kind": "bug-hunt"})


def a_hunt_summary(verdict: str = "No bug of fly was proven.") -> BugHuntSummary:
    """A hunt that found nothing."""
    request = BugHuntCreate(classifiers=["leaning"], labels=["fly"], seed=0)
    config = BugHuntConfig(
        request=request, suite="fake", generation=GenerationPreset(steps=4, guidance=1.0), models={},
        versions={}, classes=["fly", "bee"], templates={"fly": "a photo of a <class>"},
        prompts={"fly": "a photo of a fly"}, examples={"fly": "a" * 64},
        shares=HuntShares(baseline=64, hypotheses=64, held_out=32), detectable=None, clip="clip",
        objectionable=None, notes=[],
    )  # fmt: skip
    return BugHuntSummary(
        run_id="run-1", config=config, request_counts=counts(3), images=8,
        seconds=1.0, baselines=[], objects={}, captions={}, hypotheses=[], bugs=[], cost=Cost(),
        verdict=verdict,
    )  # fmt: skip
