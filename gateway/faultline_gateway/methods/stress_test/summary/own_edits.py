"""What the user's own edits do to each classifier: one of the five states, and a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.contract.findings import FindingState
from faultline_core.contract.interventions import Intervention
from faultline_core.contract.stress_tests import EditTypeSummary, InterventionSummary
from faultline_core.stress_test.confirmation import MARGIN
from faultline_gateway.methods.stress_test.summary.sentences import points

Judged = tuple[FindingState, str]
"""A state, and the sentence that says why."""


def judged_by_own_edits(name: str, interventions: Sequence[InterventionSummary]) -> Judged:
    """Judge a classifier by the user's own edits: by the worst that was shown, or by what is ruled out."""
    found = [(one, one.models[name]) for one in interventions if one.models[name].drop.n]
    if not found:
        return "cannot-tell", f"{name}: no image was kept, so there is no result."
    shown = [each for each in found if each[1].significant]
    if shown:
        intervention, worst = max(shown, key=lambda each: _lost(each[1]))
        more = f", and under {len(shown) - 1} more of your edits" if len(shown) > 1 else ""
        return "breaks", f"{name} loses {_loss(worst)} when {_in_words(intervention)}{more}."
    # Of all edits, the one that could hide the largest loss.
    intervention, least_known = max(found, key=lambda each: _high(each[1]))
    high, edits = _high(least_known), sum(figure.drop.n for _, figure in found)
    if high <= MARGIN:
        ruled_out = f"a loss above {points(high)} points is ruled out"
        return "holds", f"{name} held on {edits} of your edits: {ruled_out}."
    hidden = f"a loss of up to {points(high)} points could hide when {_in_words(intervention)}"
    return "cannot-tell", f"{name}: too few images to tell; {hidden}."


def _in_words(intervention: InterventionSummary) -> str:
    return Intervention(removed=intervention.removed, added=intervention.added).in_words()


def _lost(figure: EditTypeSummary) -> float:
    return -(figure.delta_p.estimate or 0.0)


def _loss(figure: EditTypeSummary) -> str:
    """The loss of accuracy where there is one, or else the loss of certainty."""
    drop, images = figure.drop, f"on {figure.drop.n} images"
    if drop.estimate is not None and drop.estimate > 0:
        return f"{points(drop.estimate)} points of accuracy {images}"
    return f"{points(_lost(figure))} points of certainty {images}"


def _high(figure: EditTypeSummary) -> float:
    return min(max(1.0 if figure.drop.high is None else figure.drop.high, 0.0), 1.0)
