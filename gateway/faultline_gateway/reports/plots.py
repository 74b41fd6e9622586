"""Geometry of the report's plots: dots with intervals on one axis, grouped, ready to be drawn as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from faultline_core.types import Estimate
from faultline_gateway.reports.numbers import signed

WIDTH = 980
LABEL_WIDTH = 160
RIGHT_MARGIN = 24
DOT_STEP = 15
GROUP_GAP = 12
TWO_LINES = 38
TOP = 8
AXIS_HEIGHT = 26


@dataclass(frozen=True)
class Dot:
    """One figure: where its estimate and the ends of its interval lie, and which series it is of."""

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


@dataclass(frozen=True)
class Axis:
    """A linear scale from values to SVG units."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Position of a value, kept inside the axis."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(LABEL_WIDTH + share * (WIDTH - RIGHT_MARGIN - LABEL_WIDTH), 1)

    def ticks(self) -> list[float]:
        """About five round values."""
        step = _round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step - 1e-9)
        return [index * step for index in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _round_step(raw: float) -> float:
    power = 10.0 ** math.floor(math.log10(raw))
    return next((nice * power for nice in (1.0, 2.0, 5.0) if nice * power >= raw), 10.0 * power)


def fitted_axis(
    figures: Sequence[Estimate],
    *,
    around: float,
    least: float = 0.1,
    bounds: tuple[float, float] = (-1.0, 1.0),
) -> Axis:
    """An axis that holds all intervals and the value ``around``, with a little air inside ``bounds``."""
    ends = [around, *(end for figure in figures for end in (figure.low, figure.high) if end is not None)]
    low, high = min(ends), max(ends)
    air = 0.05 * (high - low) if high - low >= least else least / 2
    return Axis(max(low - air, bounds[0]), min(high + air, bounds[1]))


def plot(
    groups: Mapping[str, Mapping[str, Estimate]],
    axis: Axis,
    *,
    zero: float | None = None,
    percent: bool = False,
    notes: Mapping[str, str] = MappingProxyType({}),
) -> Plot:
    """Lay out group → series → figure; figures that do not exist leave no dot."""
    series = list(dict.fromkeys(name for figures in groups.values() for name in figures))
    bands: list[Band] = []
    y = float(TOP)
    for label, figures in groups.items():
        band = _band(label, figures, series, axis, y, notes.get(label, ""))
        bands.append(band)
        y += band.height
    ticks = [(axis.place(value), f"{value:.0%}" if percent else signed(value, 2)) for value in axis.ticks()]
    return Plot(
        height=y + AXIS_HEIGHT,
        bands=bands,
        ticks=ticks,
        zero=None if zero is None else axis.place(zero),
        series=series,
        axis_y=y,
    )


def _band(
    label: str, figures: Mapping[str, Estimate], series: Sequence[str], axis: Axis, top: float, note: str
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
