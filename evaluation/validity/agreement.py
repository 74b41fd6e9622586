"""Estimated and true drops over cells, for the tool and for its baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from counterpose_core.statistics.bootstrap import bootstrap_mean
from counterpose_core.types import Estimate

from .changes import Row
from .measures import DRAWS, UNKNOWN, Floats, resampled, slope, spearman
from .report import Absent, Agreement, Compared, Margin

_LEAST_CELLS_WITHIN = 5
_TOOL_SEED = "faultline"
"""Enters the seed of the tool's intervals, so it is data: another string would draw other resamples."""

NO_AGREEMENT = Agreement(
    spearman=UNKNOWN,
    spearman_within_models=UNKNOWN,
    mean_absolute_error=UNKNOWN,
    calibration_slope=UNKNOWN,
)
"""The agreement where no cell has enough sources."""


def true_means(rows: Sequence[Row]) -> Floats:
    """The true drop of each cell."""
    return np.array([row.true.mean() for row in rows])


def estimated_means(rows: Sequence[Row]) -> Floats:
    """The drop that the tool estimates for each cell."""
    return np.array([row.estimated.mean() for row in rows])


def intervals(rows: Sequence[Row], generator: np.random.Generator) -> list[Estimate]:
    """The interval of each cell's estimated drop, computed as the tool does."""
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


def beyond_reconstruction(rows: Sequence[Row], generator: np.random.Generator) -> Agreement:
    """The same estimates measured from each source's reconstruction, as in the tool's tests.

    The drop then excludes what the generator does to every image, edited or not. Cells without any
    reconstruction are left out.
    """
    known = [row for row in rows if row.beyond.size and not np.isnan(row.beyond).all()]
    return agreement(known, np.array([np.nanmean(row.beyond) for row in known]), generator)


def margin(rows: Sequence[Row], predicted: Floats, generator: np.random.Generator) -> Margin:
    """How much better the tool's estimates agree with the truth than ``predicted``, on the same cells."""
    true, mine = true_means(rows), estimated_means(rows)
    models = [row.cell.classifier for row in rows]

    def ranked(guess: Floats, at: NDArray[np.intp]) -> float:
        # A constant baseline has no rank correlation: it counts as 0, like chance.
        return spearman(guess[at], true[at]) or 0.0

    def error(guess: Floats, at: NDArray[np.intp]) -> float:
        return float(np.abs(guess[at] - true[at]).mean())

    return Margin(
        spearman=resampled(lambda at: ranked(mine, at) - ranked(predicted, at), models, generator),
        mean_absolute_error=resampled(lambda at: error(mine, at) - error(predicted, at), models, generator),
    )


def comparison(
    rows: Sequence[Row],
    guesses: Mapping[str, Floats | Absent],
    generators: Callable[[str], np.random.Generator],
) -> dict[str, Compared]:
    """Compare the tool, then each baseline with the tool's margin over it."""
    found: dict[str, Compared] = {"counterpose": ours(rows, generators(_TOOL_SEED))}
    for name, guess in guesses.items():
        found[name] = guess if isinstance(guess, Absent) else _with_margin(rows, guess, generators(name))
    return found


def _with_margin(rows: Sequence[Row], guess: Floats, generator: np.random.Generator) -> Agreement:
    if not rows:
        return NO_AGREEMENT
    made = agreement(rows, guess, generator)
    return made.model_copy(update={"margin": margin(rows, guess, generator)})
