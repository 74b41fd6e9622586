"""Geometry of the report's plots: dots with intervals on one axis, in groups, for drawing as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from counterpose_core.types import Estimate
from counterpose_gateway.reports.numbers import signed
from counterpose_gateway.reports.scale import Scale

WIDTH = 980
LABEL_WIDTH = 160
RIGHT_MARGIN = 24
DOT_STEP = 15
GROUP_GAP = 12
TWO_LINES = 38
TOP = 8
AXIS_HEIGHT = 26
_TICK_STEPS = 5


@dataclass(frozen=True)
class Dot:
    """One figure: the positions of its estimate and of the ends of its interval, and its series."""

    series: int
    x: float
    low: float
    high: float
    y: float
    title: str


@dataclass(frozen=True)
class Band:
    """A group of dots under one label; ``note`` is a second, smaller line of it."""

    label: str
    y: float
    top: float
    height: float
    dots: list[Dot]
    note: str = ""


@dataclass(frozen=True)
class Plot:
    """Everything the template draws; lengths in SVG units."""

    height: float
    bands: list[Band]
    ticks: list[tuple[float, str]]
    zero: float | None
    series: list[str]
    width: float = WIDTH
    left: float = LABEL_WIDTH
    right: float = WIDTH - RIGHT_MARGIN
    axis_y: float = 0.0

    def across(self, x: float) -> float:
        """A position as per cent of the axis, so that a page can draw the plot at any width."""
        return round(100 * (x - self.left) / (self.right - self.left), 2)


def fitted_axis(
    figures: Sequence[Estimate],
    *,
    around: float,
    least: float = 0.1,
    bounds: tuple[float, float] = (-1.0, 1.0),
) -> Scale:
    """A scale that holds all intervals and the value ``around``, with a little air inside ``bounds``."""
    ends = [around, *(end for figure in figures for end in (figure.low, figure.high) if end is not None)]
    low, high = min(ends), max(ends)
    air = 0.05 * (high - low) if high - low >= least else least / 2
    return Scale(
        max(low - air, bounds[0]), min(high + air, bounds[1]), start=LABEL_WIDTH, end=WIDTH - RIGHT_MARGIN
    )


def plot(
    groups: Mapping[str, Mapping[str, Estimate]],
    axis: Scale,
    *,
    zero: float | None = None,
    percent: bool = False,
    notes: Mapping[str, str] = MappingProxyType({}),
) -> Plot:
    """Lay out group → series → figure; figures without an estimate get no dot."""
    series = list(dict.fromkeys(name for figures in groups.values() for name in figures))
    bands: list[Band] = []
    y = float(TOP)
    for label, figures in groups.items():
        band = _band(label, figures, series, axis, y, notes.get(label, ""))
        bands.append(band)
        y += band.height
    ticks = [
        (axis.place(value), f"{100 * value:.0f} %" if percent else signed(value, 2))
        for value in axis.ticks(_TICK_STEPS)
    ]
    return Plot(
        height=y + AXIS_HEIGHT,
        bands=bands,
        ticks=ticks,
        zero=None if zero is None else axis.place(zero),
        series=series,
        axis_y=y,
    )


def _band(
    label: str, figures: Mapping[str, Estimate], series: Sequence[str], axis: Scale, top: float, note: str
) -> Band:
    rows = max(1, len(figures)) * DOT_STEP + GROUP_GAP
    height = max(rows, TWO_LINES) if note else rows
    dots: list[Dot] = []
    for row, (name, figure) in enumerate(figures.items()):
        if figure.estimate is None or figure.low is None or figure.high is None:
            continue
        dots.append(
            Dot(
                series=series.index(name),
                x=axis.place(figure.estimate),
                low=axis.place(figure.low),
                high=axis.place(figure.high),
                y=top + (height - len(figures) * DOT_STEP) / 2 + DOT_STEP * (row + 0.5),
                title=f"{label}, {name}: {figure}",
            )
        )
    return Band(label=label, y=top + height / 2, top=top, height=height, dots=dots, note=note)
