"""The user's own edits in the report: a plot by class (LANCE, fig. 9), a table, the hardest image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from counterpose_core.contract.interventions import Intervention
from counterpose_core.contract.runs import Item
from counterpose_core.contract.stress_tests import InterventionSummary, StressTestSummary
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.report.gallery import Pair, pair
from counterpose_gateway.methods.stress_test.summary.own_edits import intervention_spoken_of
from counterpose_gateway.reports.images import Album
from counterpose_gateway.reports.numbers import counted, signed, signed_interval
from counterpose_gateway.reports.plots import Plot, fitted_axis, plot

SHOWN_CLASSES = 20
"""More would make a plot longer than a screen; a sentence gives the total."""


@dataclass(frozen=True)
class ShownIntervention:
    """One intervention in words, its effect by class, and the pair that shows it best."""

    title: str
    found: InterventionSummary
    by_class: Plot
    sentences: list[str]
    example: Pair | None


def shown_interventions(
    summary: StressTestSummary, items: Sequence[Item], album: Album, models: Sequence[str]
) -> list[ShownIntervention]:
    """Every intervention of the run, with a dot for each of ``models`` in its plot."""
    by_id = {item.id: (item, item.result) for item in items if item.result is not None}
    return [
        ShownIntervention(
            title=Intervention(removed=found.removed, added=found.added).in_words(),
            found=found,
            by_class=class_plot(found, models),
            sentences=[*found.sentences, *class_sentences(found, models, summary.task.score)],
            example=pair(by_id[found.example_item], album, summary.run_id)
            if found.example_item in by_id
            else None,
        )
        for found in summary.interventions
    ]


def first_example(summary: StressTestSummary, shown: Sequence[ShownIntervention]) -> Pair | None:
    """The pair beside a verdict on own edits: of the edit that the first sentence speaks of."""
    if not summary.verdicts:
        return None
    spoken = intervention_spoken_of(summary.verdicts[0].classifier, summary.interventions)
    return next((one.example for one in shown if one.found is spoken), None)


def class_plot(summary: InterventionSummary, models: Sequence[str]) -> Plot:
    """Change of the score by class, the class that loses most first."""
    groups = {
        name: {model: summary.classes[name][model] for model in models} for name in _order(summary, models)
    }
    shown = dict(list(groups.items())[:SHOWN_CLASSES])
    figures = [figure for group in shown.values() for figure in group.values()]
    notes = {
        name: counted(max(figure.n for figure in group.values()), "source") for name, group in shown.items()
    }
    return plot(shown, fitted_axis(figures, around=0.0), zero=0.0, notes=notes)


def class_sentences(summary: InterventionSummary, models: Sequence[str], score: str) -> list[str]:
    """Describe the plot for readers who cannot see it; ``score`` is the name of what changes."""
    order = _order(summary, models)
    if not order:
        return []
    hardest = _hardest(summary, models, score)
    sentences = [f"Of {len(order)} class{'es' if len(order) != 1 else ''}, {hardest}."]
    if len(order) > SHOWN_CLASSES:
        sentences.append(f"The plot shows the {SHOWN_CLASSES} classes that lose most.")
    return sentences


def _order(summary: InterventionSummary, models: Sequence[str]) -> list[str]:
    means = {name: _mean([figures[model] for model in models]) for name, figures in summary.classes.items()}
    return sorted((name for name in means if means[name] is not None), key=lambda name: (means[name], name))


def _mean(figures: Sequence[Estimate]) -> float | None:
    known = [figure.estimate for figure in figures if figure.estimate is not None]
    return sum(known) / len(known) if known else None


def _hardest(summary: InterventionSummary, models: Sequence[str], score: str) -> str:
    measured = [
        (figure.estimate, name, model)
        for name, figures in summary.classes.items()
        for model in models
        if (figure := figures[model]).estimate is not None
    ]
    change, name, model = min(measured)
    figure = summary.classes[name][model]
    return (
        f"{name} loses most with {model}: {score} changes by {signed(change, 2)} "
        f"({signed_interval(figure)}, n={figure.n}); classes were not tested against each other"
    )
