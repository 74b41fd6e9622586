"""The verdict in words: what the figures show, and where they cannot decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faultline_core.contract.stress_tests import Insight, InterventionSummary, ModelSummary
from faultline_gateway.methods.stress_test.summary.sentences import (
    excludes_zero,
    in_words,
    number,
    p_in_words,
)

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
    """Write one line on the finding for each model, worst first, then the strongest insight.

    The user's own edits come last; a run that has only these gets no other line.
    """
    if all(model.counterfactual.n_images == 0 for model in models.values()):
        if not any(summary.kept for summary in interventions):
            return (
                f"No verdict: no edit of {counts['planned']} planned items survived with its control, "
                "so this run says nothing about these classifiers."
            )
        proposed = any(model.edit_types for model in models.values())
        sentences = ["No proposed edit survived with its control."] if proposed else []
    else:
        worst_first = sorted(models.items(), key=lambda pair: -(pair[1].drop.estimate or 0.0))
        sentences = [_judge(name, model) for name, model in worst_first]
        sentences += [*_most_harmful_type(models), *_untested_cells(models), *_strongest(insights)]
    sentences += _chosen(interventions)
    unfinished = counts["failed"] + counts["cancelled"] + counts.get("pending", 0)
    if unfinished:
        sentences.append(
            f"{unfinished} of {counts['planned']} planned items failed, were cancelled or are not done; "
            "the figures do not include them."
        )
    return "\n".join(sentences)


def _chosen(interventions: Sequence[InterventionSummary]) -> list[str]:
    """The effects of the user's own edits: all if there are few, otherwise those that were shown."""
    sentences = [
        (sentence, model.significant)
        for summary in interventions
        for sentence, model in zip(summary.sentences, summary.models.values(), strict=True)
    ]
    if len(sentences) <= _MOST_CHOSEN:
        return [sentence for sentence, _ in sentences]
    shown = [sentence for sentence, significant in sentences if significant]
    rest = len(sentences) - len(shown)
    return [*shown, f"No drop was shown for {rest} of {len(sentences)} pairs of classifier and chosen edit."]


def _strongest(insights: Sequence[Insight]) -> list[str]:
    """Claim an insight only if its test has shown it; count the hints."""
    if not insights:
        return []
    if insights[0].significant:
        return [f"Strongest single change: {insights[0].sentence}"]
    listed = "1 hint is" if len(insights) == 1 else f"{len(insights)} hints are"
    return [f"No single change of words was shown to hurt; {listed} listed: check on more images."]


def _most_harmful_type(models: Mapping[str, ModelSummary]) -> list[str]:
    """Name the kind of change that lowers p(true class) most, where both test and interval show that it does.

    The test compares with the controls, the interval with the originals: neither is enough alone.
    """
    harmful = [
        (summary.delta_p.estimate or 0.0, name, edit_type, summary)
        for name, model in models.items()
        for edit_type, summary in model.edit_types.items()
        if summary.significant and summary.delta_p.high is not None and summary.delta_p.high < 0
    ]
    if not harmful:
        return []
    _, name, edit_type, summary = min(harmful, key=lambda candidate: candidate[0])
    tested = "" if summary.p_adjusted is None else f", {p_in_words(summary.p_adjusted)} beyond the controls"
    return [
        f"Most harmful kind of change: {edit_type} for {name}, p(true class) changes by "
        f"{in_words(summary.delta_p)}{tested}."
    ]


def _untested_cells(models: Mapping[str, ModelSummary]) -> list[str]:
    statuses = [cell.status for model in models.values() for cell in model.edit_types.values()]
    untested = statuses.count("insufficient")
    if not untested:
        return []
    return [
        f"Of {len(statuses)} pairs of classifier and kind of change, {untested} have too few sources with a "
        "placebo of their own for a test: nothing is claimed about them."
    ]


def _judge(name: str, model: ModelSummary) -> str:
    dropped = model.drop
    if dropped.estimate is None:
        return f"{name}: no edit survived, so there is no result."
    figures = (
        f"acc@1 {number(model.original.acc1)} on the originals and {number(model.counterfactual.acc1)} on "
        f"their counterfactuals, a drop of {in_words(dropped)}"
    )
    beside = _compared_with_controls(dropped.estimate, model)
    if model.p is None:
        return f"{name}: without placebos no drop could be tested: {figures}. {beside}"
    if model.p_adjusted is None:
        n = 0 if model.beyond_placebo is None else model.beyond_placebo.n
        return (
            f"{name}: {figures}; {n} sources with a placebo of their own are too few for a verdict (at least "
            f"{model.sources_needed})."
        )
    if model.p_adjusted <= ALPHA:
        tested = f"{p_in_words(model.p_adjusted)} beyond the placebos, corrected for all classifiers tested"
        return f"{name} loses accuracy: {figures} ({tested}). {beside}"
    if model.p_gain_adjusted is not None and model.p_gain_adjusted <= ALPHA:
        return f"{name} is more accurate on counterfactuals than on placebos ({figures})."
    if excludes_zero(dropped) and dropped.estimate > 0.0:
        return f"{name}: no drop beyond the placebos' was shown: {figures}. {beside}"
    return (
        f"{name}: no drop was shown, which does not mean that there is no drop ({figures})"
        f"{_would_show(model)}."
    )


def _would_show(model: ModelSummary) -> str:
    drop = model.overall.detectable_drop if model.overall else None
    if drop is None:
        return ""
    return f"; a fall of p(true class) by {drop:.2g} would be shown with 80 % probability"


def _compared_with_controls(dropped: float, model: ModelSummary) -> str:
    """Compare the drop with the cost of the generator alone."""
    # LANCE-R is a baseline among the controls: it changes something, so it does not measure the generator.
    costs = {name: control.drop for name, control in model.controls.items() if name != "lance-r"}
    alone = ", ".join(f"{name} alone costs {in_words(cost)}" for name, cost in costs.items())
    swamping = [
        name
        for name, cost in costs.items()
        if cost.estimate is not None and cost.estimate > _SWAMPING_SHARE * dropped
    ]
    cannot_tell = "so the generator's effect cannot be separated from the edit's."
    if swamping:
        return f"But {alone}: more than half of the drop, {cannot_tell}"
    changed = _changes_answers(model)
    missing = [name for name, cost in costs.items() if cost.estimate is None]
    if missing:
        comparison = (
            f"Without {' and '.join(missing)} as control, the generator's share of the drop is unknown."
        )
    else:
        comparison = f"The controls change little on average: {alone}."
    return f"{comparison} But {changed}, {cannot_tell}" if changed else comparison


def _changes_answers(model: ModelSummary) -> str:
    """Say that too many answers may change without an edit, unless edits are shown to change more of them."""
    share, beyond = model.changed_by_reconstruction, model.changed_beyond_reconstruction
    if share is None or share.high is None or share.estimate is None or share.high <= MOST_CHANGED:
        return ""
    if beyond is not None and beyond.low is not None and beyond.low > 0.0:
        return ""
    return (
        f"the reconstruction alone changes {share.estimate:.1%} of {share.n} answers, possibly up to "
        f"{share.high:.1%} (the limit is {MOST_CHANGED:.0%})"
    ).replace("%", " %")
