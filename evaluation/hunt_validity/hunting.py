"""Runs a hunt in this process: the product's plan, work, stages and summary over the engines."""

from __future__ import annotations

from counterpose_core.contract.bug_hunt_summary import BugHuntSummary
from counterpose_core.contract.bug_hunts import BugHuntCreate
from counterpose_core.suite import Suite
from counterpose_gateway.methods.bug_hunt.method import BUG_HUNT
from evaluation.in_process import HeldLedger, context_of, work_off

from .engines import Engines


def hunt(create: BugHuntCreate, engines: Engines, suite: Suite) -> BugHuntSummary:
    """Run a hunt to its end and sum it up."""
    ledger = HeldLedger()
    context = context_of(engines.services, engines.store, suite, ledger)
    ended = work_off(BUG_HUNT, create, context)
    ledger.ended[ended.run.id] = ended
    return BUG_HUNT.summarize(ended.run, (), None, context)
