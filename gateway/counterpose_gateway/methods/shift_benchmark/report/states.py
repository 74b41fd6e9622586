"""How sure it is that a shift costs the models accuracy: the words of stress tests, for a shift."""

from __future__ import annotations

from counterpose_core.contract.findings import FindingState
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary, ShiftSummary

LEAST_SURE = 0.05
"""A shift is shown to change accuracy if its adjusted p is below."""

MARGIN = 0.10
"""The models hold under a shift if a larger mean loss of accuracy is ruled out."""


def is_sure(shift: ShiftSummary) -> bool:
    """Whether a shift is shown to change accuracy."""
    return shift.effect is not None and shift.effect.p_adjusted < LEAST_SURE


def state_of(shift: ShiftSummary) -> FindingState:
    """The state of a shift: ``test-unfit`` replaces what its impact alone would say.

    A loss is only ``suspected`` to be the shift's as long as the generator alone may cost as much, or no real
    images tell what it costs.
    """
    if shift.effect is None:
        return "cannot-tell"
    if shift.confounded:
        return "test-unfit"
    impact = shift.effect.impact
    if is_sure(shift) and (impact.estimate or 0.0) > 0.0:
        return "breaks" if shift.confounding == "not-confounded" else "suspected"
    return "holds" if impact.high is not None and impact.high < MARGIN else "cannot-tell"


def counted_images(summary: ShiftBenchmarkSummary) -> str:
    """What images must be to count: where classifiers failed on some, not only kept."""
    return "kept and answered" if summary.unanswered else "kept"


def note_of(shift: ShiftSummary) -> str:
    """What the generator alone does beside a shift, where that decides its state; empty otherwise."""
    match state_of(shift):
        case "test-unfit":
            return "the generator alone costs more"
        case "suspected" if shift.confounding is None:
            return "no real images tell what the generator alone costs"
        case "suspected":
            return "the generator alone may cost as much"
        # What breaks costs more, and nothing that holds could have come from the generator.
        case _:
            return ""
