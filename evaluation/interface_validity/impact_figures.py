"""Impacts and slopes of shifts, estimated from generated images, against those of renderings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from counterpose_core.shift_benchmark.answers import ModelAnswers
from counterpose_core.shift_benchmark.benchmark import shift_benchmark
from counterpose_core.shift_benchmark.shift_effect import ShiftEffect
from counterpose_core.statistics.bootstrap import bootstrap_mean
from counterpose_core.types import Estimate
from evaluation.validity.measures import Floats, resampled, share, spearman

from .report import ImpactFigures, ShiftFigures


def impact_figures(
    estimated: ModelAnswers, truth: ModelAnswers, generator: np.random.Generator
) -> ImpactFigures:
    """Compare each shift's impact, drops and slope with the rendered ones, over the shifts that have both."""
    pairs = {
        name: (mine, true)
        for name, mine, true in zip(
            truth.shifts, _effects(estimated, generator), _effects(truth, generator), strict=True
        )
        if mine is not None and true is not None
    }
    rows = [_row(name, mine, true) for name, (mine, true) in pairs.items()]
    impacts = np.array([[row.impact.estimate, row.true_impact.estimate] for row in rows], dtype=np.float64)
    drops = np.array(
        [
            [one.drop.estimate, other.drop.estimate]
            for mine, true in pairs.values()
            for one, other in zip(mine.models, true.models, strict=True)
        ],
        dtype=np.float64,
    )
    names, models = list(pairs), len(truth.models)
    slopes = [
        (row, row.slope.estimate - row.true_slope.estimate)
        for row in rows
        if row.slope.estimate is not None and row.true_slope.estimate is not None
    ]
    errors = np.abs(impacts[:, 0] - impacts[:, 1]) if rows else np.zeros(0)
    return ImpactFigures(
        shifts=rows,
        rank_correlation=_correlation(impacts.reshape(-1, 2), names, generator),
        drop_rank_correlation=_correlation(
            drops.reshape(-1, 2), np.repeat(names, models).tolist(), generator
        ),
        mean_absolute_error=bootstrap_mean(errors.tolist(), generator, bounds=(0.0, 1.0)),
        coverage=share([row.impact_held for row in rows]),
        slope_error=resampled(
            lambda chosen: float(np.mean([abs(slopes[place][1]) for place in chosen])) if slopes else None,
            [row.shift for row, _ in slopes],
            generator,
        ),
        slope_coverage=share([bool(row.slope_held) for row, _ in slopes]),
    )


def _effects(answers: ModelAnswers, generator: np.random.Generator) -> list[ShiftEffect | None]:
    return [row.effect for row in shift_benchmark(answers, generator).rows]


def _row(name: str, mine: ShiftEffect, true: ShiftEffect) -> ShiftFigures:
    slope, true_slope = mine.slope.slope, true.slope.slope
    known = slope.estimate is not None and true_slope.estimate is not None
    return ShiftFigures(
        shift=name,
        impact=mine.impact,
        true_impact=true.impact,
        impact_held=_holds(mine.impact, true.impact),
        slope=slope,
        true_slope=true_slope,
        slope_held=_holds(slope, true_slope) if known else None,
    )


def _holds(interval: Estimate, truth: Estimate) -> bool:
    """Whether the interval contains the true estimate, whose own noise is small: many images are rendered."""
    if interval.low is None or interval.high is None or truth.estimate is None:
        return False
    return interval.low <= truth.estimate <= interval.high


def _correlation(pairs: Floats, clusters: Sequence[str], generator: np.random.Generator) -> Estimate:
    """Spearman's correlation, with an interval over shifts: the drops of one shift depend on each other."""
    return resampled(lambda rows: spearman(pairs[rows, 0], pairs[rows, 1]), clusters, generator)
