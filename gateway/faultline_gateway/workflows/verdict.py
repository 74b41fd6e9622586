"""The verdict in words: what the figures allow to say, and where they allow nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faultline_core.contract.stress_tests import Insight, ModelSummary
from faultline_core.insights import Pattern
from faultline_core.types import Estimate

LEAST_SOURCES = 20
"""Under it a drop is reported but not judged."""

ALPHA = 0.05
"""Family-wise, over the classifiers of a run."""

_SWAMPING_SHARE = 0.5


def verdict(
    models: Mapping[str, ModelSummary], insights: Sequence[Insight], counts: Mapping[str, int]
) -> str:
    """Say for each model what was found, one line each, worst first, then the strongest insight."""
    if all(model.counterfactual.n_images == 0 for model in models.values()):
        return (
            f"No verdict: of {counts['planned']} planned items no edit survived with its control, "
            "so nothing can be said about these classifiers."
        )
    worst_first = sorted(models.items(), key=lambda pair: -(pair[1].drop.estimate or 0.0))
    sentences = [_judge(name, model) for name, model in worst_first]
    sentences += _most_harmful_type(models)
    found = [insight for insight in insights if excludes_zero(insight.delta_p)]
    if found:
        sentences.append(f"Strongest single change: {found[0].sentence}")
    unfinished = counts["failed"] + counts["cancelled"] + counts.get("pending", 0)
    if unfinished:
        sentences.append(
            f"{unfinished} of {counts['planned']} planned items failed, were cancelled or are not done: "
            "they are in no figure."
        )
    return "\n".join(sentences)


def _most_harmful_type(models: Mapping[str, ModelSummary]) -> list[str]:
    """Name the kind of change that lowers p(true class) most, where its interval says that it does."""
    harmful = [
        (figure.estimate, name, edit_type, figure)
        for name, model in models.items()
        for edit_type, summary in model.edit_types.items()
        if (figure := summary.delta_p).estimate is not None and figure.n >= LEAST_SOURCES
        if figure.high is not None and figure.high < 0
    ]
    if not harmful:
        return []
    _, name, edit_type, figure = min(harmful, key=lambda found: found[0])
    return [
        f"Most harmful kind of change: {edit_type} for {name}, p(true class) changes by {in_words(figure)}."
    ]


def _judge(name: str, model: ModelSummary) -> str:
    dropped = model.drop
    if dropped.estimate is None:
        return f"{name}: no edit survived, nothing can be said."
    figures = (
        f"acc@1 {_number(model.original.acc1)} on the originals and {_number(model.counterfactual.acc1)} on "
        f"their counterfactuals, a drop of {in_words(dropped)}"
    )
    if dropped.n < LEAST_SOURCES:
        return f"{name}: {figures}; {dropped.n} sources are too few for a verdict (it takes {LEAST_SOURCES})."
    if not excludes_zero(dropped):
        return f"{name}: no drop could be shown, which does not mean that there is none ({figures})."
    if dropped.estimate < 0:
        return f"{name} answers better on counterfactuals than on originals ({figures})."
    p = 1.0 if model.p_adjusted is None else model.p_adjusted
    figures = f"{figures} ({_tested(p)}). {_beside_control(dropped.estimate, model)}"
    if p > ALPHA:
        return f"{name}: no drop beyond the reconstruction's could be shown: {figures}"
    return f"{name} loses accuracy: {figures}"


def _tested(p: float) -> str:
    size = f"= {p:.3f}" if p >= 0.001 else "< 0.001"
    return f"p {size} against the reconstruction, corrected for all classifiers tested"


def _beside_control(dropped: float, model: ModelSummary) -> str:
    """Hold the drop against what the generator alone costs."""
    costs = {name: control.drop for name, control in model.controls.items()}
    told = ", ".join(f"{name} alone costs {in_words(cost)}" for name, cost in costs.items())
    swamping = [
        name
        for name, cost in costs.items()
        if cost.estimate is not None and cost.estimate > _SWAMPING_SHARE * dropped
    ]
    missing = [name for name, cost in costs.items() if cost.estimate is None]
    if swamping:
        return (
            f"But {told}: more than half of the drop, "
            "so the generator's effect cannot be told from the edit's."
        )
    if missing:
        return f"Without {' and '.join(missing)} as control, the generator's share of it is unknown."
    return f"The controls change little: {told}."


def insight_sentence(classifier: str, pattern: Pattern, delta_p: Estimate) -> str:
    """Name a change and its effect, and say when the interval leaves its direction open."""
    doubt = "" if excludes_zero(delta_p) else "; the interval crosses zero, so this is a hint only"
    return (
        f"{classifier} on {pattern.object_class!r}: when {pattern.in_words()}, p({pattern.object_class}) "
        f"changes by {in_words(delta_p)}{doubt}."
    )


def excludes_zero(figure: Estimate) -> bool:
    """Whether the whole interval lies on one side of zero."""
    return figure.low is not None and figure.high is not None and (figure.low > 0 or figure.high < 0)


def in_words(figure: Estimate) -> str:
    """An estimate with its interval and number of sources, as prose."""
    if figure.estimate is None or figure.low is None or figure.high is None:
        return "nothing measured (n=0)"
    return f"{figure.estimate:.2f} (95 % interval {figure.low:.2f} to {figure.high:.2f}, n={figure.n})"


def _number(figure: Estimate) -> str:
    return "-" if figure.estimate is None else f"{figure.estimate:.2f}"
