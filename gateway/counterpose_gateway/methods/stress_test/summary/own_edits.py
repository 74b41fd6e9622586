"""What the user's own edits do to each classifier: one of the five states, and a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from counterpose_core.contract.findings import FindingState
from counterpose_core.contract.interventions import Intervention
from counterpose_core.contract.stress_tests import EditTypeSummary, InterventionSummary
from counterpose_core.stress_test.confirmation import MARGIN
from counterpose_core.stress_test.decisions import too_few
from counterpose_gateway.methods.stress_test.summary.sentences import p_in_words, points

Judged = tuple[FindingState, str]
"""A state, and the sentence that says why."""


def judged_by_own_edits(name: str, interventions: Sequence[InterventionSummary]) -> Judged:
    """Judge a classifier by the user's own edits: by the worst that was shown, or by what is ruled out."""
    spoken = intervention_spoken_of(name, interventions)
    if spoken is None:
        return "cannot-tell", f"{name}: no image was kept, so there is no result."
    figure = spoken.models[name]
    if losing := _losing(name, interventions):
        more = f", and under {len(losing) - 1} more of your edits" if len(losing) > 1 else ""
        return "breaks", f"{name} loses {_loss(figure, spoken.kept)} when {_in_words(spoken)}{more}."
    high = _high(figure)
    if high <= MARGIN:
        images = sum(one.kept for one in interventions if one.models[name].drop.n)
        ruled_out = f"a loss of accuracy above {points(high)} points is ruled out"
        return "holds", f"{name} held on {images} images under your edits: {ruled_out}."
    hidden = f"a loss of up to {points(high)} points could hide when {_in_words(spoken)}"
    return "cannot-tell", f"{name}: {_why_undecided(figure)}; {hidden}."


def _why_undecided(figure: EditTypeSummary) -> str:
    """The rule by which no loss is shown."""
    if figure.p is None:
        return "no placebo was kept to compare with"
    if figure.status == "insufficient":
        return too_few(figure.drop.n, figure.sources_needed)
    # What a test sees and the interval denies is no verdict; which of the two decided must be said.
    if rule := figure.why_not_shown:
        return f"no loss is shown, as {rule}"
    return (
        "no loss is shown"
        if figure.p_adjusted is None
        else f"no loss is shown ({p_in_words(figure.p_adjusted)})"
    )


def intervention_spoken_of(
    name: str, interventions: Sequence[InterventionSummary]
) -> InterventionSummary | None:
    """The edit that a classifier is judged by: the worst that was shown, else the least known; or None."""
    if losing := _losing(name, interventions):
        return max(losing, key=lambda one: _lost(one.models[name]))
    found = [one for one in interventions if one.models[name].drop.n]
    # Of all edits, the one that could hide the largest loss.
    return max(found, key=lambda one: _high(one.models[name]), default=None)


def _losing(name: str, interventions: Sequence[InterventionSummary]) -> list[InterventionSummary]:
    return [one for one in interventions if one.models[name].drop.n and one.models[name].significant]


def _in_words(intervention: InterventionSummary) -> str:
    return Intervention(removed=intervention.removed, added=intervention.added).in_words()


def _lost(figure: EditTypeSummary) -> float:
    return -(figure.delta_p.estimate or 0.0)


def _loss(figure: EditTypeSummary, kept: int) -> str:
    """The loss of accuracy where its interval shows one, or else that of the score."""
    drop, images = figure.drop, f"on {kept} images"
    if drop.low is not None and drop.low > 0:
        return f"{points(drop.estimate)} points of accuracy {images}"
    return f"{points(_lost(figure))} points of the score {images}"


def _high(figure: EditTypeSummary) -> float:
    return min(max(1.0 if figure.drop.high is None else figure.drop.high, 0.0), 1.0)
