"""The line through model accuracies: slopes, their scale, and the influence of single models."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from counterpose_core.shift_benchmark.accuracy_line import ModelAccuracies, linear_slope, probit, probit_slope
from evaluation.reference.plain_figures import slopes

BASE = np.array([0.5, 0.6, 0.7, 0.8, 0.9])


def accuracies(shifted: np.ndarray, *, base: np.ndarray = BASE, noise: float = 0.01) -> ModelAccuracies:
    draw = np.random.default_rng(0)
    return ModelAccuracies(
        models=tuple("abcdefgh"[: len(base)]),
        base=base,
        shifted=shifted,
        base_draws=(base + draw.normal(0.0, noise, (500, len(base)))).astype(np.float32),
        shifted_draws=(shifted + draw.normal(0.0, noise, (500, len(base)))).astype(np.float32),
        base_images=200,
        shifted_images=100,
        freedom=90,
    )


@pytest.mark.paper("DI-S6-slope")
@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)), min_size=3, max_size=12))
def test_the_slope_matches_least_squares(points: list[tuple[float, float]]) -> None:
    base, shifted = np.array(points).T
    if np.ptp(base) > 1e-3:
        assert float(slopes(base, shifted)) == pytest.approx(np.polyfit(base, shifted, 1)[0], abs=1e-6)


def test_many_lines_are_fitted_at_once() -> None:
    draw = np.random.default_rng(1)
    base, shifted = draw.uniform(size=(2, 7, 5))
    assert slopes(base, shifted) == pytest.approx(
        [np.polyfit(*pair, 1)[0] for pair in zip(base, shifted, strict=True)]
    )


def test_equal_base_accuracies_give_no_slope() -> None:
    assert np.isnan(slopes([0.5, 0.5, 0.5], [0.1, 0.2, 0.3]))
    found = linear_slope(accuracies(BASE, base=np.full(5, 0.5), noise=0.0))
    assert (found.slope.estimate, found.slope.n, found.without_one, found.leaning_on) == (None, 5, None, None)
    assert found.reliability == 0.0


def test_two_models_lie_on_any_line() -> None:
    assert linear_slope(accuracies(BASE[:2], base=BASE[:2])).slope.estimate is None


def test_the_slope_interval_contains_the_slope_and_counts_models() -> None:
    found = linear_slope(accuracies(1.5 * BASE - 0.6)).slope
    assert found.estimate == pytest.approx(1.5, rel=0.01)
    assert found.n == 5
    assert found.low is not None
    assert found.high is not None
    assert 1.3 < found.low < 1.5 < found.high < 1.7


def test_noise_in_the_base_is_taken_out_of_the_slope() -> None:
    """With a noise of 0.06, least squares lose a tenth of the slope: 4 x 0.06^2 of a spread of 0.1."""
    draw, found, plain = np.random.default_rng(3), [], []
    for _ in range(300):
        seen = accuracies(
            0.8 * BASE + draw.normal(0.0, 0.03, 5), base=BASE + draw.normal(0.0, 0.06, 5), noise=0.06
        )
        slope = linear_slope(seen).slope.estimate
        if slope is not None:
            found.append(slope)
            plain.append(float(slopes(seen.base, seen.shifted)))
    assert np.median(plain) < 0.75
    assert np.median(found) == pytest.approx(0.8, abs=0.05)


def test_base_accuracies_that_are_mostly_noise_have_no_slope_and_say_why() -> None:
    found = linear_slope(accuracies(0.8 * BASE, noise=0.15))
    assert found.slope.estimate is None
    assert found.reliability == pytest.approx(0.1, abs=0.06)
    assert found.refused is not None
    assert "a slope takes 70 %" in found.refused
    sure = linear_slope(accuracies(0.8 * BASE))
    assert sure.reliability == pytest.approx(1 - 4 * 0.01**2 / 0.1, abs=0.001)
    assert sure.refused is None


def test_models_on_one_line_give_equal_leave_one_out_slopes() -> None:
    found = linear_slope(accuracies(0.8 * BASE))
    assert found.without_one == pytest.approx((0.8, 0.8), rel=0.01)


def test_the_most_influential_model_is_named() -> None:
    shifted = 0.8 * BASE
    shifted[4] = 0.1
    found = linear_slope(accuracies(shifted))
    assert found.leaning_on == "e"
    assert found.without_one is not None
    assert found.without_one[1] == pytest.approx(0.8, rel=0.01)
    assert found.slope.estimate == pytest.approx(float(slopes(BASE, shifted)), abs=0.02)


def test_a_line_fixed_by_one_model_has_no_slope_without_it() -> None:
    found = linear_slope(accuracies(np.array([0.4, 0.4, 0.4, 0.6]), base=np.array([0.5, 0.5, 0.5, 0.9])))
    assert found.without_one == pytest.approx((0.5, 0.5), rel=0.01)


def test_three_models_have_no_leave_one_out_slopes() -> None:
    found = linear_slope(accuracies(BASE[:3], base=BASE[:3]))
    assert found.slope.estimate == pytest.approx(1.0, rel=0.02)
    assert (found.without_one, found.leaning_on) == (None, None)


def test_the_normal_scale_is_the_probit_scale() -> None:
    assert probit(BASE, 1000) == pytest.approx(stats.norm.ppf(BASE))
    shifted = stats.norm.cdf(0.7 * stats.norm.ppf(BASE) - 0.5)
    assert probit_slope(accuracies(shifted)).slope.estimate == pytest.approx(0.7, rel=0.01)


def test_accuracies_of_zero_and_one_are_clipped_by_half_an_image() -> None:
    assert probit([0.0, 0.001, 1.0], 50) == pytest.approx(stats.norm.ppf([0.01, 0.01, 0.99]))
    found = probit_slope(accuracies(np.array([0.0, 0.2, 0.5, 0.8, 1.0])))
    assert found.slope.estimate is not None
    assert np.isfinite(found.slope.estimate)
