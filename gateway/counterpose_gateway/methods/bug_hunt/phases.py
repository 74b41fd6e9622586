"""The phases of a hunt: what may follow each, and the stage that follows from what is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntInstruction, HuntPhase
from counterpose_core.contract.runs import Run
from counterpose_gateway.methods.bug_hunt.baseline import plan_baseline
from counterpose_gateway.methods.bug_hunt.captions import plan_contrast
from counterpose_gateway.methods.bug_hunt.clustering import plan_clusters
from counterpose_gateway.methods.bug_hunt.combining import plan_combinations
from counterpose_gateway.methods.bug_hunt.held_out import plan_held_out, plan_more_held_out
from counterpose_gateway.methods.bug_hunt.hunt import Hunt
from counterpose_gateway.methods.bug_hunt.hunted_items import HuntedItem
from counterpose_gateway.methods.bug_hunt.mentions import plan_mentions
from counterpose_gateway.methods.bug_hunt.mixture import plan_mixture
from counterpose_gateway.methods.bug_hunt.refinement import plan_refinement
from counterpose_gateway.methods.bug_hunt.rounds import plan_first_round, plan_next_round
from counterpose_gateway.methods.bug_hunt.samples import begun_until
from counterpose_gateway.methods.bug_hunt.varied import plan_varied
from counterpose_gateway.records.items import PlannedItem, numbered
from counterpose_gateway.runs.stages import StagePlan

PHASES: Mapping[HuntPhase, tuple[Callable[[Hunt], Iterable[PlannedItem]], ...]] = {
    "baseline": (plan_baseline, plan_clusters, plan_contrast),
    "captions": (plan_varied, plan_combinations, plan_first_round),
    "varied": (plan_clusters, plan_contrast, plan_combinations, plan_first_round),
    "clusters": (plan_contrast, plan_combinations, plan_first_round),
    "combination": (plan_first_round,),
    "hypothesis": (plan_next_round, plan_refinement, plan_held_out),
    "refinement": (plan_refinement, plan_held_out),
    "held-out": (plan_more_held_out, plan_mentions),
}
"""What follows the phase that was planned last: the first of these that has anything to do."""


def next_stage(run: Run, results: Iterable[HuntedItem]) -> StagePlan | None:
    """Plan the stage that follows, from what is recorded; None where nothing is left to find or to prove."""
    hunt = Hunt.of(BugHuntConfig.model_validate(run.resolved_config), results)
    # The mixture's rate is asked for whether or not a bug is found.
    stages = (list(plan(hunt)) for plan in (*PHASES.get(hunt.record.last, ()), plan_mixture))
    planned = next(filter(None, stages), None)
    if planned is None:
        return None
    phase = HuntInstruction.model_validate(planned[0].instruction).phase
    until = hunt.clock.until(reserved=hunt.reserved(phase))
    return StagePlan(numbered(begun_until(until, planned)))
