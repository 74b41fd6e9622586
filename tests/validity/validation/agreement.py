"""Estimated against true drops over cells, for the tool and for the baselines beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from faultline_core.statistics import bootstrap_mean
from faultline_core.types import Estimate

from .changes import Row
from .measures import DRAWS, UNKNOWN, Floats, resampled, slope, spearman
from .report import Agreement

_LEAST_CELLS_WITHIN = 5

NO_AGREEMENT = Agreement(
    spearman=UNKNOWN,
    spearman_within_models=UNKNOWN,
    mean_absolute_error=UNKNOWN,
    calibration_slope=UNKNOWN,
)
"""Where no cell has sources enough."""


def true_means(rows: Sequence[Row]) -> Floats:
    """The true drop of each cell."""
    return np.array([row.true.mean() for row in rows])


def estimated_means(rows: Sequence[Row]) -> Floats:
    """The drop that the tool estimates for each cell."""
    return np.array([row.estimated.mean() for row in rows])


def type_means(rows: Sequence[Row]) -> Floats:
    """The baseline that knows no model and no class: its edit type's mean estimated drop over all models."""
    by_type: dict[str, list[float]] = {}
    for row in rows:
        by_type.setdefault(row.cell.edit_type, []).append(float(row.estimated.mean()))
    means = {edit_type: float(np.mean(found)) for edit_type, found in by_type.items()}
    return np.array([means[row.cell.edit_type] for row in rows])


def intervals(rows: Sequence[Row], generator: np.random.Generator) -> list[Estimate]:
    """The interval of each cell's estimated drop, as the tool makes it."""
    return [bootstrap_mean(row.estimated.tolist(), generator) for row in rows]


def agreement(
    rows: Sequence[Row],
    predicted: Floats,
    generator: np.random.Generator,
    covered: Sequence[bool] | None = None,
    *,
    draws: int = DRAWS,
) -> Agreement:
    """How well ``predicted``, one drop a cell, agrees with the truth."""
    if not rows:
        return NO_AGREEMENT
    true = true_means(rows)
    models = [row.cell.classifier for row in rows]
    error = np.abs(predicted - true)
    return Agreement(
        spearman=resampled(lambda at: spearman(predicted[at], true[at]), models, generator, draws=draws),
        spearman_within_models=_within(models, predicted, true, generator),
        mean_absolute_error=resampled(lambda at: float(error[at].mean()), models, generator, draws=draws),
        calibration_slope=resampled(
            lambda at: slope(predicted[at], true[at]), models, generator, draws=draws
        ),
        intervals_with_the_truth=None if covered is None else _share(covered, models, generator),
    )


def _within(
    models: Sequence[str], predicted: Floats, true: Floats, generator: np.random.Generator
) -> Estimate:
    """The mean over models of the correlation over each one's cells; n counts models."""
    found = []
    for name in dict.fromkeys(models):
        at = np.array([model == name for model in models])
        value = spearman(predicted[at], true[at]) if at.sum() >= _LEAST_CELLS_WITHIN else None
        found += [] if value is None else [value]
    return bootstrap_mean(found, generator)


def _share(hits: Sequence[bool], models: Sequence[str], generator: np.random.Generator) -> Estimate:
    values = np.array(hits, dtype=np.float64)
    return resampled(lambda at: float(values[at].mean()), models, generator)


def covered(rows: Sequence[Row], generator: np.random.Generator) -> list[bool]:
    """Whether each cell's interval contains its true drop."""
    return [
        found.low is not None and found.high is not None and found.low <= row.true.mean() <= found.high
        for row, found in zip(rows, intervals(rows, generator), strict=True)
    ]


def ours(rows: Sequence[Row], generator: np.random.Generator, *, draws: int = DRAWS) -> Agreement:
    """The tool's own estimates."""
    return agreement(rows, estimated_means(rows), generator, covered(rows, generator), draws=draws)


def beats(mine: Agreement, others: Mapping[str, object]) -> bool | None:
    """Whether our rank correlation and error are better than every baseline's; None without any."""
    present = [other for other in others.values() if isinstance(other, Agreement)]
    if not present:
        return None
    return all(
        _above(mine.spearman, other.spearman) and _above(other.mean_absolute_error, mine.mean_absolute_error)
        for other in present
    )


def _above(first: Estimate, second: Estimate) -> bool:
    # A baseline that is constant has no rank correlation: anything above chance beats it.
    return first.estimate is not None and first.estimate > (second.estimate or 0.0)
