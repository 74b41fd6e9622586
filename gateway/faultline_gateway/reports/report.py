"""The report of a stress test: one HTML file that needs nothing but itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from faultline_core.contract.runs import Item, Run
from faultline_core.contract.stress_tests import AccuracyRow, Insight, ModelSummary, StressTestSummary
from faultline_core.types import Estimate
from faultline_gateway.reports import numbers
from faultline_gateway.reports.classes import class_accuracy_plot, class_sentences, yield_plot
from faultline_gateway.reports.environment import TEMPLATES
from faultline_gateway.reports.gallery import Gallery, Pair, build_gallery, pair
from faultline_gateway.reports.interventions import shown_interventions
from faultline_gateway.reports.links import item_links, named_items
from faultline_gateway.reports.pictures import Album
from faultline_gateway.reports.plots import Plot, fitted_axis, plot
from faultline_gateway.workflows.estimates import FILTERS

SHOWN_INSIGHTS = 9
SHOWN_MODELS = 6
"""More would not be told apart in a plot; the tables hold them all."""

_ROWS = {
    "original": "original",
    "reconstruction": "reconstruction",
    "placebo": "placebo",
    "lance_r": "LANCE-R",
    "counterfactual": "counterfactual",
}
"""Row of the drops table → what it is called."""

_PASSED = {
    "proposal": "an edit was proposed",
    "label": "removed and added words leave the class alone",
    "subjective": "no word is added whose truth no picture shows",
    "similarity": "the edit differs from what it replaces",
    "duplicate": "no other edit of the picture is the same",
    "direction": "the picture changed the way the caption did",
    "image-image": "the picture stays near the original",
    "image-text": "both pictures fit their captions",
    "closer": "the picture is nearer to the edited caption",
    "objectionable": "the picture looks like nothing objectionable",
    "kept": "kept, of all edits that were decided",
    "lance-r.proposal": "random baseline: a word of the caption could be replaced",
    "lance-r.new-word": "random baseline: the picture is nearer to the new word than to the old",
    "intervention.applicable": "own edits: the caption has the words that are replaced",
}


@dataclass(frozen=True)
class FilterRow:
    """One filter: what passing it means, its yield, and how many edits it stopped."""

    name: str
    meaning: str
    share: Estimate
    stopped: int


@dataclass(frozen=True)
class ShownInsight:
    """An insight with the pair that shows it best."""

    insight: Insight
    example: Pair | None


def render(
    summary: StressTestSummary, run: Run, items: Sequence[Item], picture: Callable[[str], bytes]
) -> str:
    """Write the report; ``picture`` returns the bytes of a picture by its reference.

    It makes no request when opened, and pictures that are gone leave a gap instead of an error.
    """
    album = Album(picture)
    gallery = _gallery(summary, items, album)
    context = {
        "summary": summary,
        "run": run,
        "verdict": _verdict(summary),
        "accuracy": accuracy_plot(summary),
        "rows": _shown_rows(summary),
        "sensitivity": sensitivity_plot(summary),
        "insights": _insights(summary, items, album, run.id),
        "more_insights": summary.insights[SHOWN_INSIGHTS:],
        "shown_insights": SHOWN_INSIGHTS,
        "interventions": shown_interventions(summary, items, album, _plotted(summary)),
        "chosen_kept": sum(found.kept for found in summary.interventions),
        "gallery": gallery,
        "links": item_links(items, gallery.shown),
        "class_yields": yield_plot(summary),
        "class_accuracy": class_accuracy_plot(summary, _plotted(summary)),
        "class_sentences": class_sentences(summary),
        "filters": filter_rows(summary),
        "weights": _weights(items),
        "config": json.dumps(summary.config, indent=2, sort_keys=True, ensure_ascii=False),
    }
    return TEMPLATES.get_template("stress_test.html.j2").render(context)


def _verdict(summary: StressTestSummary) -> list[tuple[str, str]]:
    """Lines of the verdict, each cut into the classifier it opens with, if any, and the rest."""
    lines = []
    for line in summary.verdict.splitlines():
        name = next((name for name in summary.models if line.startswith((f"{name}:", f"{name} "))), "")
        lines.append((name, line.removeprefix(name)))
    return lines


def accuracy_plot(summary: StressTestSummary) -> Plot:
    """acc@1 of every row of the drops table for each of the classifiers that drop most."""
    groups = {
        name: {row: found.acc1 for row, found in accuracy_rows(summary.models[name]).items()}
        for name in _plotted(summary)
    }
    figures = [figure for group in groups.values() for figure in group.values()]
    return plot(groups, fitted_axis(figures, around=1.0, bounds=(0.0, 1.0)), percent=True)


def _shown_rows(summary: StressTestSummary) -> dict[str, str]:
    """The rows of the drops table; the random baseline's only where the run has one."""
    has_baseline = any(model.lance_r is not None for model in summary.models.values())
    return {row: title for row, title in _ROWS.items() if has_baseline or row != "lance_r"}


def accuracy_rows(model: ModelSummary) -> dict[str, AccuracyRow]:
    """The rows of the drops table that the summary holds, by name."""
    rows = {title: getattr(model, row) for row, title in _ROWS.items()}
    return {name: row for name, row in rows.items() if row is not None}


def sensitivity_plot(summary: StressTestSummary) -> Plot:
    """Change of p(true class) by edit type and control, one dot a classifier."""
    names = _plotted(summary)
    groups: dict[str, dict[str, Estimate]] = {}
    for edit_type in summary.edit_types:
        groups[edit_type] = {name: summary.models[name].edit_types[edit_type].delta_p for name in names}
    for control in dict.fromkeys(control for name in names for control in summary.models[name].controls):
        groups[control] = {name: summary.models[name].controls[control].delta_p for name in names}
    figures = [figure for group in groups.values() for figure in group.values()]
    return plot(groups, fitted_axis(figures, around=0.0), zero=0.0)


def _plotted(summary: StressTestSummary) -> list[str]:
    by_drop = sorted(summary.models, key=lambda name: -(summary.models[name].drop.estimate or 0.0))
    return by_drop[:SHOWN_MODELS]


def filter_rows(summary: StressTestSummary) -> list[FilterRow]:
    """The filters in the order they are applied, then what they leave, in all and by edit type."""
    order = [*FILTERS.values(), *(name for name in summary.yields if name not in FILTERS.values())]
    return [
        FilterRow(name.replace(".", ": "), _meaning(name), share, numbers.stopped(share))
        for name in order
        if (share := summary.yields.get(name)) is not None
    ]


def _meaning(name: str) -> str:
    """What passing a filter means; those of interventions judge as the filters of edits do."""
    alike = name.removeprefix("intervention.")
    return _PASSED.get(name) or (f"own edits: {_PASSED[alike]}" if alike in _PASSED else "")


def _weights(items: Sequence[Item]) -> dict[str, list[str]]:
    """Which weights answered for each service; more than one means that they changed during the run."""
    answered: dict[str, set[str]] = {}
    for item in items:
        for service, weights in (item.result.models if item.result else {}).items():
            answered.setdefault(service, set()).add(weights)
    return {service: sorted(weights) for service, weights in sorted(answered.items())}


def _insights(
    summary: StressTestSummary, items: Sequence[Item], album: Album, run: str
) -> list[ShownInsight]:
    by_id = {item.id: (item, item.result) for item in items if item.result is not None}
    return [
        ShownInsight(insight, pair(by_id[insight.example_item], album, run))
        if insight.example_item in by_id
        else ShownInsight(insight, None)
        for insight in summary.insights[:SHOWN_INSIGHTS]
    ]


def _gallery(summary: StressTestSummary, items: Sequence[Item], album: Album) -> Gallery:
    named = named_items(summary, SHOWN_INSIGHTS)
    return build_gallery(items, album, run=summary.run_id, seed=summary.seed, named=named)
