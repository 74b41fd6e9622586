"""The curves of severity in the report: accuracy by level with its band, an operation each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from counterpose_core.contract.severity import SeverityFigure, SeveritySummary
from counterpose_core.contract.transforms import TransformSummary
from counterpose_core.types import Estimate
from counterpose_gateway.reports.plots import Scale

WIDTH, HEIGHT = 420.0, 200.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 50.0, 408.0, 10.0, 160.0
_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Curve:
    """One classifier's curve: its series, the corners of line and band in SVG units, and what it says."""

    series: int
    line: str
    band: str
    title: str


@dataclass(frozen=True)
class SeverityPlot:
    """Everything the template draws of one operation; lengths in SVG units."""

    title: str
    curves: list[Curve]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    width: float = WIDTH
    height: float = HEIGHT
    left: float = _LEFT
    right: float = _RIGHT
    top: float = _TOP
    bottom: float = _BOTTOM


def severity_plots(told: TransformSummary) -> list[SeverityPlot]:
    """Lay out the curves of every operation with several levels, in the order of the findings."""
    severity = told.severity
    if severity is None:
        return []
    by_operation: dict[str, list[SeverityFigure]] = {}
    for figure in severity.figures:
        if len(figure.levels) > 1:
            by_operation.setdefault(figure.operation, []).append(figure)
    names = list(told.controls)
    return [_plot(figures, names, told) for figures in by_operation.values()]


def _plot(figures: Sequence[SeverityFigure], names: Sequence[str], told: TransformSummary) -> SeverityPlot:
    levels = [0, *(each.level for each in figures[0].levels)]
    x, y = Scale(0.0, float(levels[-1]), _LEFT, _RIGHT), Scale(0.0, 1.0, _BOTTOM, _TOP)
    curves = [
        _curve(each, names.index(each.classifier) + 1, told.controls[each.classifier], x, y)
        for each in sorted(figures, key=lambda figure: names.index(figure.classifier))
    ]
    return SeverityPlot(
        title=figures[0].title,
        curves=curves,
        x_ticks=[(x.place(level), str(level)) for level in levels],
        y_ticks=[(y.place(share), f"{100 * share:.0f} %") for share in _QUARTERS],
    )


def _curve(figure: SeverityFigure, series: int, control: Estimate, x: Scale, y: Scale) -> Curve:
    known = [(0, control), *((each.level, each.accuracy) for each in figure.levels)]
    points = [(x.place(level), each) for level, each in known if each.estimate is not None]
    upper = [(at, y.place(each.high or 0.0)) for at, each in points]
    lower = [(at, y.place(each.low or 0.0)) for at, each in reversed(points)]
    said = ", ".join(f"level {level} {each}" for level, each in known)
    return Curve(
        series=series % 8,
        line=_corners([(at, y.place(each.estimate or 0.0)) for at, each in points]),
        band=_corners([*upper, *lower]),
        title=f"{figure.classifier}, accuracy: {said}",
    )


def _corners(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)


def severity_rows(severity: SeveritySummary) -> list[tuple[SeverityFigure, dict[int, int]]]:
    """Each figure with the number of images that fail at each level."""
    return [(each, {level.level: level.failing for level in each.levels}) for each in severity.figures]
