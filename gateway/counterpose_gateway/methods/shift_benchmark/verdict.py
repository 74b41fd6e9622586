"""The verdict on a shift: how sure it is that it costs the models accuracy, in the words of stress tests."""

from __future__ import annotations

from counterpose_core.contract.findings import FindingState
from counterpose_core.contract.shift_benchmark_summary import EffectSummary
from counterpose_core.shift_benchmark.generator_gap import Confounding

SIGNIFICANCE_LEVEL = 0.05
"""A shift is shown to change accuracy if its p-value after Holm's correction is below."""

MARGIN = 0.10
"""The models hold under a shift if a mean loss of accuracy as large is ruled out."""


def is_significant(effect: EffectSummary | None) -> bool:
    """Whether a shift is shown to change accuracy."""
    return effect is not None and effect.p_adjusted < SIGNIFICANCE_LEVEL


def state_of(effect: EffectSummary | None, confounding: Confounding | None) -> FindingState:
    """The state of a shift: ``test-unfit`` replaces what its impact alone would say.

    A loss is only ``suspected`` to be the shift's as long as the generator alone may cost as much, or no real
    images tell what it costs.
    """
    if effect is None:
        return "cannot-tell"
    if confounding == "confounded":
        return "test-unfit"
    if is_significant(effect) and (effect.impact.estimate or 0.0) > 0.0:
        return "breaks" if confounding == "not-confounded" else "suspected"
    return "holds" if effect.impact.high is not None and effect.impact.high < MARGIN else "cannot-tell"
