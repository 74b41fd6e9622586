"""Yield and accuracy by class in the report (LANCE, figures 7 and 8): plots, and the same in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faultline_core.contract.stress_tests import ClassSummary, StressTestSummary
from faultline_core.types import Estimate
from faultline_gateway.reports.numbers import percent, share_interval
from faultline_gateway.reports.plots import Plot, fitted_axis, plot

SHOWN_CLASSES = 20
"""More would make a plot longer than a screen; the table holds them all."""

_SHARE = (0.0, 1.0)


def yield_plot(summary: StressTestSummary) -> Plot:
    """Share of each class's decided edits that was kept, lowest first."""
    chosen = _lowest({name: found.yields.estimate for name, found in summary.classes.items()})
    found = {name: summary.classes[name] for name in chosen}
    groups = {name: {"kept of decided edits": each.yields} for name, each in found.items()}
    notes = {name: f"{each.kept} kept of {each.planned}" for name, each in found.items()}
    return _plot(groups, notes)


def class_accuracy_plot(summary: StressTestSummary, models: Sequence[str]) -> Plot:
    """acc@1 of each of ``models`` on the counterfactuals of each class, hardest class first."""
    chosen = _lowest({name: _mean(found, models) for name, found in summary.classes.items()})
    found = {name: summary.classes[name] for name in chosen}
    groups = {
        name: {model: each.models[model].counterfactual for model in models} for name, each in found.items()
    }
    notes = {name: _covered(each, models) for name, each in found.items()}
    return _plot(groups, notes)


def class_sentences(summary: StressTestSummary) -> list[str]:
    """What the two plots show, for whoever cannot see them."""
    return [*_yield_in_words(summary.classes), *_accuracy_in_words(summary.classes)]


def _plot(groups: Mapping[str, Mapping[str, Estimate]], notes: Mapping[str, str]) -> Plot:
    figures = [figure for group in groups.values() for figure in group.values()]
    return plot(groups, fitted_axis(figures, around=1.0, bounds=_SHARE), percent=True, notes=notes)


def _lowest(values: Mapping[str, float | None]) -> list[str]:
    known = {name: value for name, value in values.items() if value is not None}
    return sorted(known, key=lambda name: (known[name], name))[:SHOWN_CLASSES]


def _mean(found: ClassSummary, models: Sequence[str]) -> float | None:
    measured = [found.models[model].counterfactual.estimate for model in models]
    known = [value for value in measured if value is not None]
    return sum(known) / len(known) if known else None


def _covered(found: ClassSummary, models: Sequence[str]) -> str:
    return f"{max((found.models[model].n_sources for model in models), default=0)} sources"


def _yield_in_words(classes: Mapping[str, ClassSummary]) -> list[str]:
    order = [
        (each.yields.estimate, name) for name, each in classes.items() if each.yields.estimate is not None
    ]
    if not order:
        return []
    (low, fewest), (high, most) = min(order), max(order)
    return [
        f"Fewest edits survive for {fewest}: {percent(low)} of {classes[fewest].yields.n} "
        f"({share_interval(classes[fewest].yields)}); most for {most}: {percent(high)} of "
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
        f"({share_interval(figures.counterfactual)}) where the same originals have "
        f"{percent(figures.original.estimate)}, n={figures.n_sources} sources."
    ]
