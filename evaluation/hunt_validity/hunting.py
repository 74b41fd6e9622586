"""Runs a hunt in this process: the product's plan, work, stages and summary over the engines."""

from __future__ import annotations

from evaluation.in_process import context_of, work_off
from faultline_core.contract.bug_hunt_summary import BugHuntSummary
from faultline_core.contract.bug_hunts import BugHuntCreate, HuntItem
from faultline_core.suite import Suite
from faultline_gateway.methods.bug_hunt.method import BUG_HUNT
from faultline_gateway.methods.bug_hunt.summary import summarize

from .engines import Engines


def hunt(create: BugHuntCreate, engines: Engines, suite: Suite) -> BugHuntSummary:
    """Run a hunt to its end and sum it up."""
    context = context_of(engines.services, engines.store, suite)
    ended = work_off(BUG_HUNT, create, context)
    return summarize(ended.run, [item for item in ended.items if isinstance(item, HuntItem)])
