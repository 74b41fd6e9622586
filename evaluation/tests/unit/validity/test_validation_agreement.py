"""Agreement of estimated with true drops, on known answers and against a model-agnostic baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from evaluation.validity import aims
from evaluation.validity.agreement import beyond_reconstruction, comparison, covered, margin, ours
from evaluation.validity.changes import Cell, Row
from evaluation.validity.report import Absent

LEVELS = [0.05 * level for level in range(12)]


def rng_of(_: str) -> np.random.Generator:
    return np.random.default_rng(0)


def rows(estimated: Sequence[float], true: Sequence[float], models: int = 2, types: int = 2) -> list[Row]:
    """One cell a level, alternating between models and edit types; every source agrees with its cell."""
    return [
        Row(
            Cell(f"model-{at % models}", "boat", f"type-{at % types}", "background", str(at), "removed"),
            np.full(20, guess),
            np.full(20, drop),
        )
        for at, (guess, drop) in enumerate(zip(estimated, true, strict=True))
    ]


def test_perfect_estimates_have_no_error() -> None:
    found = ours(rows(LEVELS, LEVELS), np.random.default_rng(0), draws=40)
    assert found.spearman.estimate == pytest.approx(1.0)
    assert found.spearman.n == 12
    assert found.spearman_within_models.estimate == pytest.approx(1.0)
    assert found.spearman_within_models.n == 2
    assert found.mean_absolute_error.estimate == pytest.approx(0.0)
    assert found.calibration_slope.estimate == pytest.approx(1.0)
    assert found.intervals_with_the_truth is not None
    assert found.intervals_with_the_truth.estimate == 1.0


def test_overestimates_rank_well_but_have_an_error() -> None:
    found = ours(rows([0.2 + level for level in LEVELS], LEVELS), np.random.default_rng(0), draws=40)
    assert found.spearman.estimate == pytest.approx(1.0)
    assert found.mean_absolute_error.estimate == pytest.approx(0.2)


def test_agreement_beyond_reconstruction_skips_cells_without_that_estimate() -> None:
    table = rows(LEVELS[::-1], LEVELS)
    beyond = [
        *(replace(row, beyond=row.true) for row in table[:-1]),
        replace(table[-1], beyond=np.full(20, np.nan)),
    ]
    found = beyond_reconstruction(beyond, np.random.default_rng(0))
    assert found.spearman.estimate == pytest.approx(1.0)
    assert found.spearman.n == len(table) - 1
    assert found.mean_absolute_error.estimate == pytest.approx(0.0)


def test_interval_coverage_is_determined() -> None:
    noisy = np.random.default_rng(0).normal(0.3, 0.1, 40)
    inside = Row(Cell("m", "boat", "t", "a", "v", "removed"), noisy, np.full(40, noisy.mean()))
    outside = Row(inside.cell, noisy, np.full(40, 0.9))
    assert covered([inside, outside], np.random.default_rng(0)) == [True, False]


def test_correlation_within_models_ignores_differences_between_them() -> None:
    true = [0.01 * at + 0.5 * (at % 2) for at in range(12)]
    estimated = [-0.01 * at + 0.5 * (at % 2) for at in range(12)]
    found = ours(rows(estimated, true), np.random.default_rng(0), draws=40)
    assert found.spearman.estimate is not None
    assert found.spearman.estimate > 0.4
    assert found.spearman_within_models.estimate == pytest.approx(-1.0)


def test_the_margin_is_the_agreement_minus_that_of_the_baseline() -> None:
    table = rows(LEVELS, LEVELS)
    found = margin(table, np.array(LEVELS[::-1]), np.random.default_rng(0))
    assert found.spearman.estimate == pytest.approx(2.0)
    assert found.mean_absolute_error.estimate == pytest.approx(
        -np.abs(np.diff(np.array([LEVELS, LEVELS[::-1]]), axis=0)).mean()
    )


def test_a_constant_baseline_ranks_like_chance() -> None:
    table = rows(LEVELS, LEVELS)
    found = margin(table, np.full(len(table), 0.2), np.random.default_rng(0))
    assert found.spearman.estimate == pytest.approx(1.0)


def test_each_baseline_is_compared_by_rank_and_by_error() -> None:
    table = rows(LEVELS, LEVELS)
    found = comparison(table, {"reversed": np.array(LEVELS[::-1])}, rng_of)
    assert list(found) == ["counterpose", "reversed"]
    assert [aim.met for aim in aims.beats("reversed", found["reversed"])] == [True, True]


def test_a_baseline_can_win_by_rank_and_lose_by_error() -> None:
    table = rows([0.3 + level for level in LEVELS], LEVELS)
    found = comparison(table, {"flat": np.full(len(table), 0.3)}, rng_of)
    assert [aim.met for aim in aims.beats("flat", found["flat"])] == [True, False]


def test_the_comparison_with_a_baseline_not_run_is_unknown() -> None:
    absent = Absent(absent="not run")
    assert comparison([], {"lance-r": absent}, rng_of)["lance-r"] == absent
    assert [aim.met for aim in aims.beats("lance-r", absent)] == [None, None]


def test_without_cells_every_figure_is_unknown() -> None:
    assert ours([], np.random.default_rng(0)).spearman.estimate is None
