"""Geometry of the reports' scatter plots: points with intervals on two axes, for drawing as SVG."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from counterpose_core.types import Estimate
from counterpose_gateway.reports.numbers import MINUS, decimal, percent
from counterpose_gateway.reports.scale import Scale

LEFT = 58
TOP = 12
RIGHT_MARGIN = 26
BELOW = 44
_MOST_DIGITS = 4
_TICK_STEPS = 4


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
        values = scale.ticks(_TICK_STEPS) if self.ticks is None else self.ticks
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


def spread(figures: Sequence[Estimate], *around: float, least: float = 0.1) -> tuple[float, float]:
    """A range that holds all intervals and the values ``around``, with a little air."""
    ends = [end for figure in figures for end in (figure.low, figure.high) if end is not None]
    low, high = min((*ends, *around)), max((*ends, *around))
    air = 0.06 * (high - low) if high - low >= least else least / 2
    return low - air, high + air


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
    right, bottom = width - RIGHT_MARGIN, height - BELOW
    x_scale, x_ticks = x.placed(LEFT, right)
    y_scale, y_ticks = y.placed(bottom, TOP)
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
        width, height, LEFT, right, TOP, bottom, x.title, y.title, x_ticks, y_ticks, marks, drawn, series
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
