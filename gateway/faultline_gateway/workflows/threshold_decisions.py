"""Which shift threshold is in force: a person's newest, else the suite's, else the paper's, else none."""

from __future__ import annotations

from collections.abc import Iterable

from faultline_core.contract.shift_benchmarks import BenchmarkShift, ShiftBenchmarkConfig
from faultline_core.contract.shift_thresholds import ShiftThresholdDecision, ThresholdInForce
from faultline_core.shifts import BASE


def thresholds_in_force(
    config: ShiftBenchmarkConfig, decisions: Iterable[ShiftThresholdDecision]
) -> dict[str, ThresholdInForce]:
    """The threshold of each shift but the base; ``decisions`` come oldest first."""
    # Another CLIP's similarities are on another scale: what was decided on them says nothing here.
    newest = {each.shift: each for each in decisions if each.checkpoint == config.clip}
    shifts = (shift for shift in config.shifts if shift.name != BASE)
    return {shift.name: _in_force(shift, newest.get(shift.name)) for shift in shifts}


def _in_force(shift: BenchmarkShift, decision: ShiftThresholdDecision | None) -> ThresholdInForce:
    if decision is None:
        return ThresholdInForce(threshold=shift.threshold, set_by=shift.threshold_from)
    return ThresholdInForce(
        threshold=decision.threshold,
        set_by="person",
        author=decision.author,
        decided_at=decision.decided_at,
        percentile=decision.percentile,
        nothing_passes=decision.threshold is None,
    )
