"""Figures over cells: rank correlation, calibration, clustered intervals, reliability."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.validity.measures import resampled, slope, spearman, split_half

RISING = np.arange(10.0)


def test_any_increasing_relation_has_a_rank_correlation_of_one() -> None:
    assert spearman(RISING, np.exp(RISING)) == pytest.approx(1.0)
    assert spearman(RISING, -RISING) == pytest.approx(-1.0)


def test_ties_share_their_rank() -> None:
    assert spearman(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 2.0, 3.0])) == pytest.approx(
        2 / np.sqrt(5)
    )


@pytest.mark.parametrize("other", [np.zeros(10), np.full(10, 0.3)])
def test_a_constant_has_no_rank_correlation(other: np.ndarray) -> None:
    assert spearman(RISING, other) is None


def test_predictions_twice_too_extreme_have_a_slope_of_one_half() -> None:
    assert slope(2.0 * RISING, RISING) == pytest.approx(0.5)


def test_rows_of_one_cluster_are_resampled_together() -> None:
    values = np.array([0.0] * 50 + [1.0] * 50)
    clusters = ["a"] * 50 + ["b"] * 50
    together = resampled(lambda at: float(values[at].mean()), clusters, np.random.default_rng(0), draws=200)
    apart = resampled(
        lambda at: float(values[at].mean()), [str(n) for n in range(100)], np.random.default_rng(0), draws=200
    )
    assert (together.estimate, together.low, together.high, together.n) == (0.5, 0.0, 1.0, 100)
    assert apart.low is not None
    assert apart.low > 0.3


def test_a_figure_undefined_on_the_rows_is_unknown() -> None:
    found = resampled(lambda _: None, ["a", "b"], np.random.default_rng(0), draws=10)
    assert (found.estimate, found.n) == (None, 2)


def test_a_figure_undefined_in_most_resamples_is_unknown() -> None:
    found = resampled(
        lambda at: 1.0 if len(set(at.tolist())) == 10 else None,
        [str(n) for n in range(10)],
        np.random.default_rng(0),
        draws=50,
    )
    assert found.estimate is None


def test_cells_without_noise_are_perfectly_reliable() -> None:
    found = split_half([np.full(20, level) for level in RISING], np.random.default_rng(0), splits=20)
    assert found.estimate == pytest.approx(1.0)
    assert found.n == 10


def test_cells_of_pure_noise_are_not_reliable() -> None:
    generator = np.random.default_rng(1)
    rows = [generator.normal(size=20) for _ in range(200)]
    found = split_half(rows, generator, splits=40)
    assert found.estimate is not None
    assert abs(found.estimate) < 0.2
