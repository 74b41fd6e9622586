"""Geometry of the reports' plots, for drawing as SVG: dots on one axis in groups, and scatter plots."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from counterpose_core.types import Estimate
from counterpose_gateway.reports.numbers import MINUS, decimal, percent, signed

WIDTH = 980
LABEL_WIDTH = 160
RIGHT_MARGIN = 24
DOT_STEP = 15
GROUP_GAP = 12
TWO_LINES = 38
TOP = 8
AXIS_HEIGHT = 26
_TICK_STEPS = 5

_SCATTER_LEFT = 58
_SCATTER_TOP = 12
_SCATTER_RIGHT_MARGIN = 26
_SCATTER_BELOW = 44
_SCATTER_TICK_STEPS = 4
_MOST_DIGITS = 4

_NICE = (1.0, 2.0, 5.0)
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Scale:
    """A linear scale from the values ``low`` to ``high`` to SVG units from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Position of a value, kept inside the axis."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, steps: int) -> list[float]:
        """Round values inside the scale, in at most ``steps`` steps of 1, 2 or 5 times a power of ten."""
        raw = (self.high - self.low) / steps
        power = 10.0 ** math.floor(math.log10(raw))
        step = next((nice * power for nice in _NICE if nice * power >= raw), 10.0 * power)
        first, last = math.ceil(self.low / step - _ROUNDING), math.floor(self.high / step + _ROUNDING)
        return [index * step for index in range(first, last + 1)]


def spread(
    figures: Sequence[Estimate], *around: float, least: float = 0.1, air: float = 0.06
) -> tuple[float, float]:
    """A range that holds all intervals and the values ``around``, with a share of itself as air."""
    ends = [end for figure in figures for end in (figure.low, figure.high) if end is not None]
    low, high = min((*ends, *around)), max((*ends, *around))
    margin = air * (high - low) if high - low >= least else least / 2
    return low - margin, high + margin


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
    low, high = spread(figures, around, least=least, air=0.05)
    return Scale(max(low, bounds[0]), min(high, bounds[1]), start=LABEL_WIDTH, end=WIDTH - RIGHT_MARGIN)


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


@dataclass(frozen=True)
class Point:
    """A point before it is placed: its figures on both axes, its series, and its name in the key."""

    x: Estimate
    y: Estimate
    series: str
    title: str
    name: str = ""


@dataclass(frozen=True)
class Mark:
    """A placed point: its centre, the ends of its intervals, its series by number.

    ``number`` is drawn in the point and stands for its ``name`` in the key; None for a point without a name.
    """

    series: int
    x: float
    y: float
    x_ends: tuple[float, float]
    y_ends: tuple[float, float]
    title: str
    name: str = ""
    number: int | None = None


@dataclass(frozen=True)
class Line:
    """A straight line, cut where it leaves the plot; ``kind`` is its class in the style sheet."""

    x1: float
    y1: float
    x2: float
    y2: float
    kind: str


@dataclass(frozen=True)
class Scatter:
    """Everything the template draws; lengths in SVG units."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    x_title: str
    y_title: str
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    marks: list[Mark]
    lines: list[Line]
    series: list[str]

    @property
    def key(self) -> list[Mark]:
        """The numbered points, by number."""
        return [mark for mark in self.marks if mark.number is not None]


@dataclass(frozen=True)
class Axis:
    """What an axis shows: its title, its range, its ticks, and how a value is written and bent.

    A value is written in per cent or as a plain number.
    ``bend`` maps a figure onto the axis's scale; ``low`` and ``high`` are on it. Ticks are figures.
    """

    title: str
    low: float
    high: float
    in_percent: bool = False
    bend: Callable[[float], float] = float
    ticks: tuple[float, ...] | None = None

    def placed(self, start: float, end: float) -> tuple[Scale, list[tuple[float, str]]]:
        """Its scale between two positions, and its ticks there."""
        scale = Scale(self.low, self.high, start, end)
        values = scale.ticks(_SCATTER_TICK_STEPS) if self.ticks is None else self.ticks
        inside = [value for value in values if self.low <= self.bend(value) <= self.high]
        places = [scale.place(self.bend(value)) for value in inside]
        return scale, list(zip(places, self._written(inside), strict=True))

    def _written(self, values: Sequence[float]) -> list[str]:
        """Ticks with enough digits to write each exactly, so that no two look equal."""
        unit, write = (100, percent) if self.in_percent else (1, decimal)
        exact = (
            digits
            for digits in range(_MOST_DIGITS)
            if all(math.isclose(round(unit * value, digits), unit * value, abs_tol=1e-9) for value in values)
        )
        digits = next(exact, _MOST_DIGITS)
        return [write(value, digits).replace("-", MINUS) for value in values]


def scatter(
    points: Sequence[Point],
    x: Axis,
    y: Axis,
    *,
    width: float,
    height: float,
    lines: Sequence[tuple[str, float, float]] = (),
) -> Scatter:
    """Place the points that have both figures; those with a name are numbered in their order, from 1.

    Args:
        points: what is drawn; a point without an estimate on either axis is left out.
        x: the horizontal axis.
        y: the vertical axis.
        width: of the whole plot, in SVG units.
        height: of the whole plot, in SVG units.
        lines: (kind, slope, intercept) on the bent scales.
    """
    right, bottom = width - _SCATTER_RIGHT_MARGIN, height - _SCATTER_BELOW
    x_scale, x_ticks = x.placed(_SCATTER_LEFT, right)
    y_scale, y_ticks = y.placed(bottom, _SCATTER_TOP)
    series = list(dict.fromkeys(point.series for point in points))
    numbers = itertools.count(1)
    marks = [
        Mark(
            series=series.index(point.series),
            x=x_scale.place(x.bend(point.x.estimate)),
            y=y_scale.place(y.bend(point.y.estimate)),
            x_ends=_ends(point.x, x, x_scale),
            y_ends=_ends(point.y, y, y_scale),
            title=point.title,
            name=point.name,
            number=next(numbers) if point.name else None,
        )
        for point in points
        if point.x.estimate is not None and point.y.estimate is not None
    ]
    drawn = [found for line in lines if (found := _cut(line, x_scale, y_scale)) is not None]
    return Scatter(
        width=width,
        height=height,
        left=_SCATTER_LEFT,
        right=right,
        top=_SCATTER_TOP,
        bottom=bottom,
        x_title=x.title,
        y_title=y.title,
        x_ticks=x_ticks,
        y_ticks=y_ticks,
        marks=marks,
        lines=drawn,
        series=series,
    )


def _ends(figure: Estimate, axis: Axis, scale: Scale) -> tuple[float, float]:
    assert figure.low is not None  # an estimate has its interval
    assert figure.high is not None
    return scale.place(axis.bend(figure.low)), scale.place(axis.bend(figure.high))


def _cut(line: tuple[str, float, float], x: Scale, y: Scale) -> Line | None:
    """The part of a line inside both scales; None if it lies outside."""
    kind, slope, intercept = line
    low, high = x.low, x.high
    if slope:
        first, second = sorted(((y.low - intercept) / slope, (y.high - intercept) / slope))
        low, high = max(low, first), min(high, second)
    elif not y.low <= intercept <= y.high:
        return None
    if low >= high:
        return None
    ends = [(x.place(at), y.place(slope * at + intercept)) for at in (low, high)]
    return Line(*ends[0], *ends[1], kind)
