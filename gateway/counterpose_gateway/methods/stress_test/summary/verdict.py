"""The verdict on each classifier: a state and one sentence, the worst first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from counterpose_core.contract.findings import ClassifierVerdict, Finding, FindingState
from counterpose_core.contract.stress_tests import InterventionSummary, ModelSummary
from counterpose_core.stress_test.decisions import too_few
from counterpose_core.stress_test.screening import LEAST_LOSS
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.summary.own_edits import judged_by_own_edits
from counterpose_gateway.methods.stress_test.summary.sentences import p_in_words, points

MOST_CHANGED = 0.06
"""A test is unfit if the controls alone are shown to change a larger share of the answers."""

ALPHA = 0.05
"""Family-wise, over the losses and gains of a run's classifiers."""

MARGIN = 0.10
"""A classifier holds if the run rules out a larger loss of accuracy."""

STATES: tuple[FindingState, ...] = ("breaks", "suspected", "test-unfit", "cannot-tell", "holds")
"""The states of a classifier, the worst first."""


def classifier_verdicts(
    models: Mapping[str, ModelSummary],
    findings: Sequence[Finding],
    interventions: Sequence[InterventionSummary] = (),
) -> list[ClassifierVerdict]:
    """Judge each classifier by its strongest finding; worst first, then by finding or loss of accuracy.

    A run of the user's own edits alone is judged by these. Without any kept edit the list is empty.

    Args:
        models: the figures of each classifier.
        findings: tested or screened changes, the surest first; those that are not shown count for nothing.
        interventions: the user's own edits, where the run planned no others.
    """
    if any(one.kept for one in interventions):
        own = [_judge_own(name, model, interventions) for name, model in models.items()]
        return sorted(own, key=lambda verdict: STATES.index(verdict.state))
    if all(model.counterfactual.n_images == 0 for model in models.values()):
        return []
    judged = [_judge(name, model, findings) for name, model in models.items()]
    strongest = {one.classifier: place for place, one in reversed(list(enumerate(findings)))}

    def worst_first(verdict: ClassifierVerdict) -> tuple[int, int, float]:
        place = strongest.get(verdict.classifier, len(findings)) if verdict.state in STATES[:2] else 0
        return STATES.index(verdict.state), place, -(models[verdict.classifier].drop.estimate or 0.0)

    return sorted(judged, key=worst_first)


def _judge_own(
    name: str, model: ModelSummary, interventions: Sequence[InterventionSummary]
) -> ClassifierVerdict:
    unfit = _unfit(name, model)
    state, sentence = judged_by_own_edits(name, interventions) if unfit is None else ("test-unfit", unfit)
    return ClassifierVerdict(classifier=name, state=state, finding=None, sentence=sentence)


def _judge(name: str, model: ModelSummary, findings: Sequence[Finding]) -> ClassifierVerdict:
    unfit = _unfit(name, model)
    if unfit is not None:
        return ClassifierVerdict(classifier=name, state="test-unfit", finding=None, sentence=unfit)
    ruled_out = _ruled_out(model.drop)
    own = [finding for finding in findings if finding.classifier == name]
    strongest = next((one for state in STATES[:2] for one in own if one.state == state), None)
    if strongest is not None:
        return ClassifierVerdict(
            classifier=name,
            state=strongest.state,
            finding=strongest.number or None,
            sentence=strongest.sentence,
            ruled_out=ruled_out,
        )
    state, sentence = _without_finding(name, model, ruled_out)
    return ClassifierVerdict(
        classifier=name, state=state, finding=None, sentence=sentence, ruled_out=ruled_out
    )


def _without_finding(name: str, model: ModelSummary, ruled_out: float | None) -> tuple[FindingState, str]:
    if ruled_out is None:
        return "cannot-tell", f"{name}: no edit survived with its control, so there is no result."
    dropped = model.drop
    # Tested against the placebos: what the editor alone costs is no fault of the classifier.
    beyond = model.beyond_placebo
    tested = model.p_adjusted is not None and model.p_adjusted <= ALPHA
    if tested and _is_clear(beyond):
        lost = points(None if beyond is None else beyond.estimate)
        return (
            "breaks",
            f"{name} loses {lost} points of accuracy on edited images; no single change explains it.",
        )
    if ruled_out <= MARGIN:
        edits = model.counterfactual.n_images
        least = f"a loss of accuracy above {points(ruled_out)} points is ruled out"
        return "holds", f"{name} held on {edits} edits: {least}."
    if ruled_out >= 1:
        return "cannot-tell", f"{name}: too few images; {dropped.n} cannot rule out any loss."
    hidden = f"a loss of up to {points(ruled_out)} points is possible (“holds” allows {points(MARGIN)})"
    return "cannot-tell", f"{name}: {_why_undecided(model)}; {hidden}."


def _why_undecided(model: ModelSummary) -> str:
    """The rule by which no loss is shown, in seven words at most."""
    beyond = model.beyond_placebo
    if model.p_adjusted is None:
        return too_few(0 if beyond is None else beyond.n, model.sources_needed)
    if model.p_adjusted > ALPHA:
        return f"no loss is shown ({p_in_words(model.p_adjusted)})"
    if beyond is not None and (beyond.low or 0.0) > 0.0:
        return f"the loss shown is below {points(LEAST_LOSS)} points"
    return "the interval of its loss holds 0"


def _is_clear(loss: Estimate | None) -> bool:
    """Whether a loss is worth a word, and its interval does not speak against it."""
    if loss is None or loss.estimate is None or loss.low is None:
        return False
    return loss.estimate >= LEAST_LOSS and loss.low > 0.0


def _ruled_out(drop: Estimate) -> float | None:
    """The loss of accuracy that the interval rules out; None where nothing was measured."""
    return None if drop.high is None else min(max(drop.high, 0.0), 1.0)


def is_unfit(changed: Estimate) -> bool:
    """Whether the controls alone are shown to change a larger share of the answers than ``MOST_CHANGED``.

    The whole interval must lie above it: a few sources can neither meet nor break the limit.
    """
    return changed.low is not None and changed.low > MOST_CHANGED


def _unfit(name: str, model: ModelSummary) -> str | None:
    """Why the controls alone make the test useless, or None."""
    changed = {"The editor": model.changed_by_reconstruction}
    placebo = model.controls.get("placebo")
    if placebo is not None:
        changed["A change of wording"] = placebo.drop
    for control, share in changed.items():
        if share is not None and is_unfit(share):
            answers = f"{points(share.estimate)} % of {name}'s answers"
            return f"{control} alone changes {answers}; the test says nothing about it."
    return None
