"""The report's short tables: models with their verdicts, and heat tables of one number a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from counterpose_core.contract.stress_test_figures import ClassFigures
from counterpose_core.contract.stress_tests import EditTypeSummary, StressTestSummary
from counterpose_gateway.methods.stress_test.report.findings import ShownFinding
from counterpose_gateway.reports.numbers import MINUS, NOTHING, counted, percent
from counterpose_gateway.reports.states import BADGES

LEVELS = (0.05, 0.15, 0.30)
"""Losses from which a cell is shaded; less is not worth a colour, however sure it is."""

CONTROLS = {"reconstruction": "control", "placebo": "control", "lance-r": "baseline"}


@dataclass(frozen=True)
class ModelRow:
    """One classifier: its verdict in words, and its share of right answers before and after."""

    name: str
    state: str
    badge: str
    sentence: str
    anchor: str
    right: str
    worst: str


@dataclass(frozen=True)
class Heat:
    """A cell of a heat table: one number, its shade from 0 to 3, and the figures behind it."""

    text: str
    value: float
    level: int
    behind: ClassFigures | EditTypeSummary


@dataclass(frozen=True)
class HeatRow:
    """A row of a heat table: its title, a note on it, and a cell for each model that has one."""

    title: str
    note: str
    cells: Mapping[str, Heat | None]


def model_rows(summary: StressTestSummary, findings: Sequence[ShownFinding] = ()) -> list[ModelRow]:
    """The classifiers in the order of their verdicts, each with the place of its strongest finding."""
    first = {(one.finding.classifier, one.state): one.anchor for one in reversed(findings)}
    operations = {each.number for each in summary.transforms.figures} if summary.transforms else set()
    return [
        ModelRow(
            name=verdict.classifier,
            state=verdict.state,
            badge=BADGES[verdict.state],
            sentence=verdict.sentence.removeprefix(verdict.classifier).removeprefix(":").strip(),
            anchor=first.get((verdict.classifier, verdict.state), "")
            if verdict.finding is None or verdict.finding not in operations
            else f"finding-{verdict.finding}",
            right=_right(summary, verdict.classifier),
            worst=_worst_class(summary, verdict.classifier),
        )
        for verdict in summary.verdicts
    ]


def share_explained(summary: StressTestSummary) -> str:
    """Why a model can break although its share of right answers hardly falls; empty where none does."""
    numbers = {finding.number for finding in summary.findings}
    shares = [
        summary.models[verdict.classifier].counterfactual
        for verdict in summary.verdicts
        if verdict.state in ("breaks", "suspected") and verdict.finding in numbers
    ]
    if not shares or not shares[0].n_images:
        return ""
    images, edits = (counted(most, noun) for most, noun in (
        (max(share.n_sources for share in shares), "image"), (max(share.n_images for share in shares), "edit")
    ))  # fmt: skip
    return (
        f"“Right before → after” is about all edits of the search, {edits} of {images}, most of which harm "
        "nothing. A verdict is about one change, on images that show it: a model can break while the share "
        "hardly falls."
    )


def _right(summary: StressTestSummary, name: str) -> str:
    model = summary.models[name]
    before, after = model.original.rate.estimate, model.counterfactual.rate.estimate
    return NOTHING if after is None else f"{percent(before)} → {percent(after)}"


def _worst_class(summary: StressTestSummary, name: str) -> str:
    falls = [
        (figures.counterfactual.estimate - figures.original.estimate, label, figures)
        for label, found in summary.classes.items()
        if (figures := found.models.get(name)) is not None
        and figures.counterfactual.estimate is not None
        and figures.original.estimate is not None
    ]
    if not falls:
        return NOTHING
    fall, label, figures = min(falls, key=lambda row: (row[0], row[1]))
    if fall > -LEVELS[0]:
        return NOTHING
    return f"{label} {percent(figures.original.estimate)} → {percent(figures.counterfactual.estimate)}"


def class_rows(summary: StressTestSummary) -> list[HeatRow]:
    """Points of accuracy that each class loses; the class that loses most first."""
    rows = [
        HeatRow(
            name,
            counted(found.kept, "edit"),
            {model: _class_cell(found.models.get(model)) for model in summary.models},
        )
        for name, found in summary.classes.items()
    ]
    return sorted(rows, key=_largest_loss)


def kind_rows(summary: StressTestSummary) -> list[HeatRow]:
    """Points of confidence in the true class that each kind of change costs, then the controls."""
    kinds = [
        HeatRow(
            kind, "", {name: _kind_cell(model.edit_types.get(kind)) for name, model in summary.models.items()}
        )
        for kind in summary.edit_types
    ]
    controls = [
        HeatRow(
            summary.control_name if control == "reconstruction" else control,
            role,
            {name: _kind_cell(model.controls.get(control)) for name, model in summary.models.items()},
        )
        for control, role in CONTROLS.items()
        if any(control in model.controls for model in summary.models.values())
    ]
    return [*sorted(kinds, key=_largest_loss), *controls]


def _largest_loss(row: HeatRow) -> float:
    return min((cell.value for cell in row.cells.values() if cell is not None), default=1.0)


def _class_cell(figures: ClassFigures | None) -> Heat | None:
    if figures is None or figures.counterfactual.estimate is None or figures.original.estimate is None:
        return None
    return _heat(figures.counterfactual.estimate - figures.original.estimate, figures)


def _kind_cell(figures: EditTypeSummary | None) -> Heat | None:
    if figures is None or figures.delta_p.estimate is None:
        return None
    return _heat(figures.delta_p.estimate, figures)


def _heat(change: float, behind: ClassFigures | EditTypeSummary) -> Heat:
    number = round(100 * change)
    text = f"{number:+d}".replace("-", MINUS) if number else "0"
    return Heat(text, change, sum(-change >= level for level in LEVELS), behind)
