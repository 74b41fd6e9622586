"""Plots of a shift benchmark (Dataset Interfaces, figures 10, 11 and 17)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from counterpose_core.contract.classifiers import ClassifierDescription
from counterpose_core.contract.shift_benchmark_summary import (
    EffectSummary,
    ImageSourceSummary,
    ModelDrop,
    ShiftBenchmarkSummary,
    SlopeSummary,
)
from counterpose_core.shift_benchmark.accuracy_line import probit
from counterpose_core.types import Estimate
from counterpose_gateway.reports.plots import Axis, Plot, Point, Scatter, fitted_axis, plot, scatter, spread

OTHER = "other"
SHOWN_GROUPS = 7
"""Architectures and families with a colour of their own; the rest are one group."""

_PANEL = (470.0, 330.0)
_MAP = (480.0, 420.0)
_NORMAL_TICKS = (0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99)


@dataclass(frozen=True)
class AccuracyLine:
    """One shift's line through the models, as the paper draws it and on the normal scale."""

    shift: str
    linear: Scatter
    normal: Scatter
    sentence: str


def accuracy_lines(
    image_source: ImageSourceSummary, models: Mapping[str, ClassifierDescription]
) -> list[AccuracyLine]:
    """A line for each shift that has an effect, in the order of the benchmark (fig. 10)."""
    groups = groups_of(image_source, models)
    return [
        AccuracyLine(
            shift=name,
            linear=_line(found.effect, found.effect.slope, groups, normal=False),
            normal=_line(found.effect, found.effect.probit_slope, groups, normal=True),
            sentence=_in_words(found.effect),
        )
        for name, found in image_source.shifts.items()
        if found.effect is not None
    ]


def groups_of(
    image_source: ImageSourceSummary, models: Mapping[str, ClassifierDescription]
) -> dict[str, str]:
    """The colour group of each model: its architecture, if the service reports one."""
    names = {
        name: models[name].architecture if name in models else ""
        for shift in image_source.shifts.values()
        for name in (shift.effect.models if shift.effect else ())
    }
    shown = sorted(set(filter(None, names.values())))[:SHOWN_GROUPS]
    return {name: group if group in shown else OTHER for name, group in names.items()}


def impact_map(image_source: ImageSourceSummary) -> Scatter | None:
    """Impact over slope, one point per shift, coloured by family (fig. 11); None if no slope is known.

    Points are numbered from the largest impact down.
    """
    effects = {name: found.effect for name, found in image_source.shifts.items() if found.effect is not None}
    ranked = sorted(effects.items(), key=lambda found: found[1].impact.estimate or 0.0, reverse=True)
    points = [
        Point(
            x=effect.slope.slope,
            y=effect.impact,
            series=image_source.shifts[name].family,
            title=f"{name}: impact {effect.impact}, slope {effect.slope.slope}",
            name=name,
        )
        for name, effect in ranked
        if effect.slope.slope.estimate is not None
    ]
    if not points:
        return None
    x_range = spread([point.x for point in points], 1.0)
    y_range = spread([point.y for point in points], 0.0)
    return scatter(
        points,
        Axis("slope of the line through the models", *x_range),
        Axis("absolute impact", *y_range, in_percent=True),
        width=_MAP[0],
        height=_MAP[1],
        lines=[("zero", 0.0, 0.0)],
    )


def similarity_plot(summary: ShiftBenchmarkSummary) -> Plot:
    """CLIP's similarity to object and shift by image source (fig. 17)."""
    groups: dict[str, dict[str, Estimate]] = {
        "to the object": {
            name: image_source.to_object for name, image_source in summary.image_sources.items()
        },
        "to the shift": {name: image_source.to_shift for name, image_source in summary.image_sources.items()},
    }
    figures = [figure for group in groups.values() for figure in group.values() if figure.low is not None]
    around = next((figure.estimate for figure in figures if figure.estimate is not None), 0.0)
    return plot(groups, fitted_axis(figures, around=around, least=0.05))


def passed_plot(summary: ShiftBenchmarkSummary) -> Plot:
    """Share of each source's shifted images that pass both criteria (fig. 17)."""
    groups = {
        "pass the filter": {name: image_source.passed for name, image_source in summary.image_sources.items()}
    }
    figures = [figure for group in groups.values() for figure in group.values()]
    return plot(groups, fitted_axis(figures, around=0.5, bounds=(0.0, 1.0)), percent=True)


def _line(effect: EffectSummary, slope: SlopeSummary, groups: Mapping[str, str], *, normal: bool) -> Scatter:
    # The line is that of the compared models; another's accuracies are of other images.
    models = {name: drop for name, drop in effect.models.items() if drop.compared}
    drops = list(models.values())
    images = min((drop.shifted.n for drop in drops), default=1)
    bend = partial(_normal, images=images) if normal else float
    points = [
        Point(
            x=drop.base,
            y=drop.shifted,
            series=groups[name],
            title=f"{name}: base {drop.base}, shifted {drop.shifted}",
        )
        for name, drop in models.items()
    ]
    axes = [
        _accuracy_axis(title, figures, bend, normal=normal)
        for title, figures in (
            ("accuracy on base images", [drop.base for drop in drops]),
            ("accuracy under the shift", [drop.shifted for drop in drops]),
        )
    ]
    lines = [("same", 1.0, 0.0)]
    if (fitted := _through(drops, slope, bend)) is not None:
        lines.append(fitted)
    return scatter(points, axes[0], axes[1], width=_PANEL[0], height=_PANEL[1], lines=lines)


def _accuracy_axis(
    title: str, figures: Sequence[Estimate], bend: partial[float] | type[float], *, normal: bool
) -> Axis:
    low, high = spread(figures)
    low, high = max(low, 0.0), min(high, 1.0)
    if not normal:
        return Axis(title, low, high, in_percent=True)
    return Axis(title, bend(low), bend(high), in_percent=True, bend=bend, ticks=_NORMAL_TICKS)


def _normal(accuracy: float, images: int) -> float:
    return float(probit(accuracy, images))


def _through(
    drops: Sequence[ModelDrop], slope: SlopeSummary, bend: partial[float] | type[float]
) -> tuple[str, float, float] | None:
    """The fitted line: least squares goes through the means of both."""
    if slope.slope.estimate is None:
        return None
    pairs = [
        (bend(drop.base.estimate), bend(drop.shifted.estimate))
        for drop in drops
        if drop.base.estimate is not None and drop.shifted.estimate is not None
    ]
    x, y = np.mean(pairs, axis=0)
    return "fitted", slope.slope.estimate, float(y - slope.slope.estimate * x)


def _in_words(effect: EffectSummary) -> str:
    slope, normal = effect.slope, effect.probit_slope
    words = f"slope {slope.slope}, on the normal scale {normal.slope}; {len(effect.classes)} classes"
    if slope.without_one is None or slope.leaning_on is None:
        return words
    low, high = slope.without_one
    return f"{words}; {low:.2f} to {high:.2f} without any one model, leaning most on {slope.leaning_on}"
