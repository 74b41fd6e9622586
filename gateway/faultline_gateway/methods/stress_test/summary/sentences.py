"""Figures as prose: an estimate with its interval, an insight, and how certain each is."""

from __future__ import annotations

from faultline_core.contract.interventions import Intervention
from faultline_core.contract.stress_tests import EditTypeSummary, Tested
from faultline_core.stress_test.insights import Pattern
from faultline_core.types import Estimate


def insight_sentence(classifier: str, pattern: Pattern, delta_p: Estimate, tested: Tested) -> str:
    """Name a change and its effect, and say whether it was shown or is a hint."""
    return (
        f"{classifier} on {pattern.object_class!r}: when {pattern.in_words()}, p({pattern.object_class}) "
        f"changes by {in_words(delta_p)}{_standing(tested)}."
    )


def intervention_sentence(classifier: str, intervention: Intervention, figures: EditTypeSummary) -> str:
    """Name the user's own edit and its effect, and say whether a drop beyond the controls was shown."""
    if figures.delta_p.n == 0:
        return f"{classifier}: when {intervention.in_words()}, no image was kept, so there is no result."
    change = (
        f"{classifier}: when {intervention.in_words()}, p(true class) changes by {in_words(figures.delta_p)}"
    )
    if figures.significant and figures.p_adjusted is not None:
        p = p_in_words(figures.p_adjusted)
        return f"{change}, {p} beyond the controls, corrected for {figures.family_size} tested."
    if figures.p is None:
        return f"{change}; without placebos to compare with, no drop can be shown."
    if figures.status == "insufficient":
        return f"{change}; a test needs {figures.sources_needed} sources, so no drop can be shown."
    return f"{change}; not shown beyond the controls."


def _standing(tested: Tested) -> str:
    if tested.significant and tested.p_adjusted is not None:
        corrected = f"corrected for {tested.family_size} changes tested"
        return f", {p_in_words(tested.p_adjusted)} beyond the controls, {corrected}"
    if tested.p is None:
        return "; without placebos to compare with, this is only a hint"
    if tested.status == "insufficient":
        return f"; a test needs {tested.sources_needed} sources, so this is only a hint"
    return "; not shown beyond the controls, so this is only a hint"


def p_in_words(p: float) -> str:
    """A p-value as prose."""
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"


def excludes_zero(figure: Estimate) -> bool:
    """Whether the whole interval lies on one side of zero."""
    return figure.low is not None and figure.high is not None and (figure.low > 0 or figure.high < 0)


def in_words(figure: Estimate) -> str:
    """An estimate with its interval and number of sources, as prose."""
    if figure.estimate is None or figure.low is None or figure.high is None:
        return "nothing measured (n=0)"
    return f"{figure.estimate:.2f} (95 % interval {figure.low:.2f} to {figure.high:.2f}, n={figure.n})"


def number(figure: Estimate) -> str:
    """An estimate alone."""
    return "-" if figure.estimate is None else f"{figure.estimate:.2f}"
