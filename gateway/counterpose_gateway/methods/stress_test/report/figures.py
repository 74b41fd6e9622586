"""The figures behind the report: accuracies with their controls, sensitivities, and what filters stopped."""

from __future__ import annotations

from dataclasses import dataclass

from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.summary.estimates import FILTERS
from counterpose_gateway.reports import numbers
from counterpose_gateway.reports.plots import Plot, fitted_axis, plot

SHOWN_MODELS = 6
"""More could not be distinguished in a plot; the tables list all of them."""

_ROWS = {
    "original": "original",
    "reconstruction": "reconstruction",
    "placebo": "placebo",
    "lance_r": "LANCE-R",
    "counterfactual": "counterfactual",
}
"""Row of the drops table → its title."""

_PASSED = {
    "proposal": "an edit was proposed",
    "label": "the removed and added words do not concern the class",
    "policy": "no content policy refuses it, the operator's or that of a server of images",
    "subjective": "no added word is a judgement that no image can show",
    "similarity": "the edit differs from what it replaces",
    "duplicate": "no other edit of the image is the same",
    "region": "a mask of the image bounds the region",
    "direction": "the image changed in the same direction as the caption",
    "image-image": "the image stays close to the original",
    "image-text": "both images fit their captions",
    "closer": "the image is closer to the edited caption than to the original one",
    "objectionable": "the image does not look objectionable",
    "judges": "enough of the run's judges call the edit right",
    "undecided": "enough of them could answer to decide it",
    "preservation": "the image has no fault that the run refuses: it is not moved, or not left as it was",
    "safety": "the safety checker flags no image of it",
    "kept": "kept, as a share of all decided edits",
    "lance-r.proposal": "random baseline: a word of the caption could be replaced",
    "lance-r.new-word": "random baseline: the image is closer to the new word than to the old",
    "intervention.applicable": "own edits: the caption contains the words to replace",
}


@dataclass(frozen=True)
class FilterRow:
    """One filter: the meaning of passing it, its yield, and the number of edits it stopped."""

    name: str
    meaning: str
    share: Estimate
    stopped: int


def accuracy_plot(summary: StressTestSummary) -> Plot:
    """The first figure in every row of the drops table for the classifiers with the largest drops."""
    groups = {
        name: {
            title: rates.rate
            for row, title in shown_rows(summary).items()
            if (rates := getattr(summary.models[name], row)) is not None
        }
        for name in plotted(summary)
    }
    figures = [figure for group in groups.values() for figure in group.values()]
    return plot(groups, fitted_axis(figures, around=1.0, bounds=(0.0, 1.0)), percent=True)


def shown_rows(summary: StressTestSummary) -> dict[str, str]:
    """The rows of the drops table; the random baseline's only where the run has one."""
    has_baseline = any(model.lance_r is not None for model in summary.models.values())
    rows = _ROWS | {"reconstruction": summary.control_name}
    return {row: title for row, title in rows.items() if has_baseline or row != "lance_r"}


def sensitivity_plot(summary: StressTestSummary) -> Plot:
    """Change of p(true class) by edit type and control, one dot per classifier."""
    names = plotted(summary)
    groups: dict[str, dict[str, Estimate]] = {}
    for edit_type in summary.edit_types:
        groups[edit_type] = {name: summary.models[name].edit_types[edit_type].delta_p for name in names}
    for control in dict.fromkeys(control for name in names for control in summary.models[name].controls):
        # A classifier that failed on every image has no controls.
        known = {name: summary.models[name].controls.get(control) for name in names}
        title = summary.control_name if control == "reconstruction" else control
        groups[title] = {name: found.delta_p for name, found in known.items() if found is not None}
    figures = [figure for group in groups.values() for figure in group.values()]
    return plot(groups, fitted_axis(figures, around=0.0), zero=0.0)


def plotted(summary: StressTestSummary) -> list[str]:
    by_drop = sorted(summary.models, key=lambda name: -(summary.models[name].drop.estimate or 0.0))
    return by_drop[:SHOWN_MODELS]


def filter_rows(summary: StressTestSummary) -> list[FilterRow]:
    """The filters in the order they are applied, then the share kept, overall and by edit type."""
    order = [*FILTERS.values(), *(name for name in summary.yields if name not in FILTERS.values())]
    return [
        FilterRow(name.replace(".", ": "), _meaning(name), share, numbers.stopped(share))
        for name in order
        if (share := summary.yields.get(name)) is not None
    ]


def _meaning(name: str) -> str:
    """The meaning of passing a filter; the filters of interventions judge like those of edits."""
    alike = name.removeprefix("intervention.")
    return _PASSED.get(name) or (f"own edits: {_PASSED[alike]}" if alike in _PASSED else "")
