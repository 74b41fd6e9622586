"""The verdict in words: what the figures allow to say, and where they allow nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faultline_core.contract.stress_tests import Insight, InterventionSummary, ModelSummary
from faultline_core.significance import LEAST_SOURCES
from faultline_core.types import Estimate
from faultline_gateway.workflows.sentences import excludes_zero, in_words, number, p_in_words

ALPHA = 0.05
"""Family-wise, over the classifiers of a run."""

MOST_CHANGED = 0.06
"""The upper bound that the share of answers changed by reconstruction alone must stay below."""

_SWAMPING_SHARE = 0.5
_MOST_CHOSEN = 8


def verdict(
    models: Mapping[str, ModelSummary],
    insights: Sequence[Insight],
    counts: Mapping[str, int],
    interventions: Sequence[InterventionSummary] = (),
) -> str:
    """Say for each model what was found, one line each, worst first, then the strongest insight.

    The user's own edits come last; in a run of these alone nothing else is said.
    """
    if all(model.counterfactual.n_images == 0 for model in models.values()):
        if not any(one.kept for one in interventions):
            return (
                f"No verdict: of {counts['planned']} planned items no edit survived with its control, "
                "so nothing can be said about these classifiers."
            )
        proposed = any(model.edit_types for model in models.values())
        sentences = ["No proposed edit survived with its control."] if proposed else []
    else:
        worst_first = sorted(models.items(), key=lambda pair: -(pair[1].drop.estimate or 0.0))
        sentences = [_judge(name, model) for name, model in worst_first]
        sentences += [*_most_harmful_type(models), *_untold_cells(models), *_strongest(insights)]
    sentences += _chosen(interventions)
    unfinished = counts["failed"] + counts["cancelled"] + counts.get("pending", 0)
    if unfinished:
        sentences.append(
            f"{unfinished} of {counts['planned']} planned items failed, were cancelled or are not done: "
            "they are in no figure."
        )
    return "\n".join(sentences)


def _chosen(interventions: Sequence[InterventionSummary]) -> list[str]:
    """What the user's own edits did: all of it where that is little, otherwise what was shown."""
    told = [
        (sentence, model.significant)
        for one in interventions
        for sentence, model in zip(one.sentences, one.models.values(), strict=True)
    ]
    if len(told) <= _MOST_CHOSEN:
        return [sentence for sentence, _ in told]
    shown = [sentence for sentence, significant in told if significant]
    rest = len(told) - len(shown)
    return [*shown, f"For {rest} of {len(told)} pairs of classifier and chosen edit no drop was shown."]


def _strongest(insights: Sequence[Insight]) -> list[str]:
    """Only what its test has shown is claimed; hints are counted."""
    if not insights:
        return []
    if insights[0].significant:
        return [f"Strongest single change: {insights[0].sentence}"]
    listed = "1 hint is" if len(insights) == 1 else f"{len(insights)} hints are"
    return [f"No single change of words was shown to hurt; {listed} listed, to be checked on more pictures."]


def _most_harmful_type(models: Mapping[str, ModelSummary]) -> list[str]:
    """Name the kind of change that lowers p(true class) most, where test and interval both say that it does.

    The test is held against the controls, the interval against the originals: one alone convinces nobody.
    """
    harmful = [
        (summary.delta_p.estimate or 0.0, name, edit_type, summary)
        for name, model in models.items()
        for edit_type, summary in model.edit_types.items()
        if summary.significant and summary.delta_p.high is not None and summary.delta_p.high < 0
    ]
    if not harmful:
        return []
    _, name, edit_type, summary = min(harmful, key=lambda found: found[0])
    tested = "" if summary.p_adjusted is None else f", {p_in_words(summary.p_adjusted)} beyond the controls"
    return [
        f"Most harmful kind of change: {edit_type} for {name}, p(true class) changes by "
        f"{in_words(summary.delta_p)}{tested}."
    ]


def _untold_cells(models: Mapping[str, ModelSummary]) -> list[str]:
    statuses = [cell.status for model in models.values() for cell in model.edit_types.values()]
    untold = statuses.count("insufficient")
    if not untold:
        return []
    return [
        f"Of {len(statuses)} pairs of classifier and kind of change, {untold} have fewer than "
        f"{LEAST_SOURCES} sources or no placebos: nothing is said about them."
    ]


def _judge(name: str, model: ModelSummary) -> str:
    dropped = model.drop
    if dropped.estimate is None:
        return f"{name}: no edit survived, nothing can be said."
    figures = (
        f"acc@1 {number(model.original.acc1)} on the originals and {number(model.counterfactual.acc1)} on "
        f"their counterfactuals, a drop of {in_words(dropped)}"
    )
    if dropped.n < LEAST_SOURCES:
        return f"{name}: {figures}; {dropped.n} sources are too few for a verdict (it takes {LEAST_SOURCES})."
    if not excludes_zero(dropped):
        return (
            f"{name}: no drop could be shown, which does not mean that there is none ({figures})"
            f"{_would_show(model)}."
        )
    if dropped.estimate < 0:
        return f"{name} answers better on counterfactuals than on originals ({figures})."
    p = 1.0 if model.p_adjusted is None else model.p_adjusted
    tested = f"{p_in_words(p)} against the reconstruction, corrected for all classifiers tested"
    figures = f"{figures} ({tested}). {_beside_control(dropped.estimate, model)}"
    if p > ALPHA:
        return f"{name}: no drop beyond the reconstruction's could be shown: {figures}"
    return f"{name} loses accuracy: {figures}"


def _would_show(model: ModelSummary) -> str:
    drop = model.overall.detectable_drop if model.overall else None
    return "" if drop is None else f"; p(true class) lower by {drop:.2g} would be shown with 80 % probability"


def _beside_control(dropped: float, model: ModelSummary) -> str:
    """Hold the drop against what the generator alone costs."""
    # LANCE-R stands among them as a baseline: it changes something, so it says nothing of the generator.
    costs = {name: control.drop for name, control in model.controls.items() if name != "lance-r"}
    told = ", ".join(f"{name} alone costs {in_words(cost)}" for name, cost in costs.items())
    swamping = [
        name
        for name, cost in costs.items()
        if cost.estimate is not None and cost.estimate > _SWAMPING_SHARE * dropped
    ]
    cannot_tell = "so the generator's effect cannot be told from the edit's."
    if swamping:
        return f"But {told}: more than half of the drop, {cannot_tell}"
    changed = _changes_answers(model.changed_by_reconstruction)
    missing = [name for name, cost in costs.items() if cost.estimate is None]
    if missing:
        beside = f"Without {' and '.join(missing)} as control, the generator's share of it is unknown."
    else:
        beside = f"The controls change little on average: {told}."
    return f"{beside} But {changed}, {cannot_tell}" if changed else beside


def _changes_answers(share: Estimate | None) -> str:
    """Say that too many answers may change where nothing was edited, if they may."""
    if share is None or share.high is None or share.estimate is None or share.high <= MOST_CHANGED:
        return ""
    return (
        f"the reconstruction alone changes {share.estimate:.1%} of {share.n} answers, possibly up to "
        f"{share.high:.1%} (at most {MOST_CHANGED:.0%} may change)"
    ).replace("%", " %")
