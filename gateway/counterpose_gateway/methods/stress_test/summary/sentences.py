"""Figures as prose: an estimate with its interval, an insight, an intervention, and how certain each is."""

from __future__ import annotations

from counterpose_core.contract.interventions import Intervention
from counterpose_core.contract.stress_test_figures import Tested
from counterpose_core.contract.stress_tests import EditTypeSummary
from counterpose_core.stress_test.insights import Pattern
from counterpose_core.types import Estimate

MINUS = "−"


def insight_sentence(classifier: str, pattern: Pattern, delta_p: Estimate, tested: Tested, score: str) -> str:
    """Name a change and its effect, and say whether it was shown or is a hint."""
    return (
        f"{classifier} on “{pattern.object_class}”: when {pattern.in_words()}, {score} "
        f"{_change(delta_p, tested)}{_standing(tested)}."
    )


def points(share: float | None) -> str:
    """A loss in whole percentage points, as prose."""
    return f"{100 * (share or 0.0):.0f}".replace("-", MINUS)


def intervention_sentence(
    classifier: str, intervention: Intervention, figures: EditTypeSummary, score: str
) -> str:
    """Name the user's own edit and its effect, and say whether a drop beyond the controls was shown."""
    if figures.delta_p.n == 0:
        return f"{classifier}: when {intervention.in_words()}, no image was kept, so there is no result."
    change = f"{classifier}: when {intervention.in_words()}, {score} changes by {in_words(figures.delta_p)}"
    if figures.significant and figures.p_adjusted is not None:
        p = p_in_words(figures.p_adjusted)
        return f"{change}, {p} beyond the controls, corrected for {figures.family_size} tested."
    if figures.p is None:
        return f"{change}; without placebos to compare with, no drop can be shown."
    if figures.status == "insufficient":
        return f"{change}; a test needs {figures.sources_needed} sources, so no drop can be shown."
    return (
        f"{change}; not shown beyond the controls{': ' * bool(figures.why_not_shown)}{figures.why_not_shown}."
    )


def _change(delta_p: Estimate, tested: Tested) -> str:
    """A shown change has the interval of what was tested, which is the loss beyond the controls.

    A hint was chosen because it is large, so an interval would mislead.
    """
    if tested.significant and tested.beyond_controls is not None:
        return f"falls by {in_words(tested.beyond_controls)} beyond the controls"
    if delta_p.estimate is None:
        return f"changes by {in_words(delta_p)}"
    return f"changes by {number(delta_p)} (n={delta_p.n})"


def _standing(tested: Tested) -> str:
    if tested.significant and tested.p_adjusted is not None:
        return f", {p_in_words(tested.p_adjusted)}, corrected for {tested.family_size} changes tested"
    if tested.p is None:
        return "; without placebos to compare with, this is only a hint"
    if tested.status == "insufficient":
        return f"; a test needs {tested.sources_needed} sources, so this is only a hint"
    return "; not shown beyond the controls, so this is only a hint"


def p_in_words(p: float) -> str:
    """A p-value as prose."""
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"


def in_words(figure: Estimate) -> str:
    """An estimate with its interval and number of sources, as prose."""
    if figure.estimate is None or figure.low is None or figure.high is None:
        return "nothing measured (n=0)"
    interval = f"95 % interval {_signed(figure.low)} to {_signed(figure.high)}"
    return f"{_signed(figure.estimate)} ({interval}, n={figure.n})"


def number(figure: Estimate) -> str:
    """An estimate alone."""
    return "–" if figure.estimate is None else _signed(figure.estimate)


def _signed(value: float) -> str:
    text = f"{value:.2f}"
    return "0.00" if text == "-0.00" else text.replace("-", MINUS)
