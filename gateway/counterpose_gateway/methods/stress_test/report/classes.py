"""Yield and accuracy by class in the report (LANCE, figures 7 and 8), as plots and as sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from counterpose_core.contract.stress_tests import ClassSummary, StressTestSummary
from counterpose_core.types import Estimate
from counterpose_gateway.reports.numbers import counted, percent, share_interval
from counterpose_gateway.reports.plots import Plot, fitted_axis, plot

SHOWN_CLASSES = 20
"""More would make a plot longer than a screen; the table lists all of them."""

_SHARE = (0.0, 1.0)


def yield_plot(summary: StressTestSummary) -> Plot:
    """Share of each class's decided edits that was kept, lowest first."""
    chosen = _lowest({name: found.yields.estimate for name, found in summary.classes.items()})
    found = {name: summary.classes[name] for name in chosen}
    groups = {name: {"kept of decided edits": each.yields} for name, each in found.items()}
    notes = {name: f"{each.kept} kept of {each.planned}" for name, each in found.items()}
    return _plot(groups, notes)


def class_accuracy_plot(summary: StressTestSummary, models: Sequence[str]) -> Plot:
    """The first figure of each of ``models`` on the counterfactuals of each class, hardest first."""
    chosen = _lowest({name: _mean(found, models) for name, found in summary.classes.items()})
    found = {name: summary.classes[name] for name in chosen}
    groups = {
        name: {model: each.models[model].counterfactual for model in models} for name, each in found.items()
    }
    notes = {name: _covered(each, models) for name, each in found.items()}
    return _plot(groups, notes)


def class_sentences(summary: StressTestSummary) -> list[str]:
    """Describe the two plots for readers who cannot see them."""
    return [*_yield_in_words(summary.classes), *_accuracy_in_words(summary.classes)]


def _plot(groups: Mapping[str, Mapping[str, Estimate]], notes: Mapping[str, str]) -> Plot:
    figures = [figure for group in groups.values() for figure in group.values()]
    return plot(groups, fitted_axis(figures, around=1.0, bounds=_SHARE), percent=True, notes=notes)


def _lowest(values: Mapping[str, float | None]) -> list[str]:
    known = {name: value for name, value in values.items() if value is not None}
    return sorted(known, key=lambda name: (known[name], name))[:SHOWN_CLASSES]


def _mean(figures: ClassSummary, models: Sequence[str]) -> float | None:
    measured = [figures.models[model].counterfactual.estimate for model in models]
    known = [value for value in measured if value is not None]
    return sum(known) / len(known) if known else None


def _covered(figures: ClassSummary, models: Sequence[str]) -> str:
    return counted(max((figures.models[model].n_sources for model in models), default=0), "source")


def _yield_in_words(classes: Mapping[str, ClassSummary]) -> list[str]:
    order = [
        (figures.yields.estimate, name)
        for name, figures in classes.items()
        if figures.yields.estimate is not None
    ]
    if not order:
        return []
    (low, fewest), (high, most) = min(order), max(order)
    return [
        f"The fewest edits survive for {fewest}: {percent(low)} of {classes[fewest].yields.n} "
        f"({share_interval(classes[fewest].yields)}); the most for {most}: {percent(high)} of "
        f"{classes[most].yields.n} ({share_interval(classes[most].yields)})."
    ]


def _accuracy_in_words(classes: Mapping[str, ClassSummary]) -> list[str]:
    order = [
        (figures.counterfactual.estimate, name, model)
        for name, found in classes.items()
        for model, figures in found.models.items()
        if figures.counterfactual.estimate is not None
    ]
    if not order:
        return []
    low, name, model = min(order)
    figures = classes[name].models[model]
    return [
        f"Lowest accuracy on counterfactuals: {model} on {name}, {percent(low)} "
        f"({share_interval(figures.counterfactual)}), compared with {percent(figures.original.estimate)} "
        f"on the same originals, {counted(figures.n_sources, 'source')}."
    ]
