"""Estimated against true drops: known answers, and the baseline that knows no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from validation import aims
from validation.agreement import beyond_reconstruction, comparison, covered, margin, ours
from validation.changes import Cell, Row
from validation.report import Absent

LEVELS = [0.05 * level for level in range(12)]


def rng_of(_: str) -> np.random.Generator:
    return np.random.default_rng(0)


def rows(estimated: Sequence[float], true: Sequence[float], models: int = 2, types: int = 2) -> list[Row]:
    """One cell a level; cells go round models and edit types; every source agrees with its cell."""
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


def test_estimates_that_are_all_too_large_rank_well_and_err() -> None:
    found = ours(rows([0.2 + level for level in LEVELS], LEVELS), np.random.default_rng(0), draws=40)
    assert found.spearman.estimate == pytest.approx(1.0)
    assert found.mean_absolute_error.estimate == pytest.approx(0.2)


def test_agreement_beyond_reconstruction_reads_the_other_estimates_and_leaves_out_cells_without() -> None:
    table = rows(LEVELS[::-1], LEVELS)
    beyond = [
        *(replace(row, beyond=row.true) for row in table[:-1]),
        replace(table[-1], beyond=np.full(20, np.nan)),
    ]
    found = beyond_reconstruction(beyond, np.random.default_rng(0))
    assert found.spearman.estimate == pytest.approx(1.0)
    assert found.spearman.n == len(table) - 1
    assert found.mean_absolute_error.estimate == pytest.approx(0.0)


def test_an_interval_contains_the_truth_or_not() -> None:
    noisy = np.random.default_rng(0).normal(0.3, 0.1, 40)
    inside = Row(Cell("m", "boat", "t", "a", "v", "removed"), noisy, np.full(40, noisy.mean()))
    outside = Row(inside.cell, noisy, np.full(40, 0.9))
    assert covered([inside, outside], np.random.default_rng(0)) == [True, False]


def test_correlation_within_models_does_not_see_differences_between_them() -> None:
    true = [0.01 * at + 0.5 * (at % 2) for at in range(12)]
    estimated = [-0.01 * at + 0.5 * (at % 2) for at in range(12)]
    found = ours(rows(estimated, true), np.random.default_rng(0), draws=40)
    assert found.spearman.estimate is not None
    assert found.spearman.estimate > 0.4
    assert found.spearman_within_models.estimate == pytest.approx(-1.0)


def test_the_tool_s_margin_is_its_own_agreement_less_the_baseline_s() -> None:
    table = rows(LEVELS, LEVELS)
    found = margin(table, np.array(LEVELS[::-1]), np.random.default_rng(0))
    assert found.spearman.estimate == pytest.approx(2.0)
    assert found.mean_absolute_error.estimate == pytest.approx(
        -np.abs(np.diff(np.array([LEVELS, LEVELS[::-1]]), axis=0)).mean()
    )


def test_a_baseline_that_says_the_same_of_every_cell_ranks_like_chance() -> None:
    table = rows(LEVELS, LEVELS)
    found = margin(table, np.full(len(table), 0.2), np.random.default_rng(0))
    assert found.spearman.estimate == pytest.approx(1.0)


def test_each_baseline_stands_beside_the_tool_and_is_beaten_by_rank_and_by_error() -> None:
    table = rows(LEVELS, LEVELS)
    found = comparison(table, {"reversed": np.array(LEVELS[::-1])}, rng_of)
    assert list(found) == ["faultline", "reversed"]
    assert [aim.met for aim in aims.beats("reversed", found["reversed"])] == [True, True]


def test_a_baseline_may_be_better_in_one_and_worse_in_the_other() -> None:
    table = rows([0.3 + level for level in LEVELS], LEVELS)
    found = comparison(table, {"flat": np.full(len(table), 0.3)}, rng_of)
    assert [aim.met for aim in aims.beats("flat", found["flat"])] == [True, False]


def test_whether_a_baseline_that_was_not_run_is_beaten_is_unknown() -> None:
    absent = Absent(absent="not run")
    assert comparison([], {"lance-r": absent}, rng_of)["lance-r"] == absent
    assert [aim.met for aim in aims.beats("lance-r", absent)] == [None, None]


def test_without_cells_all_is_unknown() -> None:
    assert ours([], np.random.default_rng(0)).spearman.estimate is None
