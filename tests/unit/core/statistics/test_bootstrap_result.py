"""Intervals and p-values of resampled means."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from counterpose_core.statistics.bootstrap import agreeing_ends
from counterpose_core.statistics.bootstrap_result import BootstrapResult, tails_of


def resampled(mean: float, parts: list[float], draws: int = 4000) -> BootstrapResult:
    """A mean to which each part is added as often as it is drawn."""
    values = np.array(parts) - np.mean(parts)
    drawn = values[np.random.default_rng(0).integers(values.size, size=(draws, values.size))].sum(axis=1)
    return BootstrapResult(
        mean=np.array([mean]),
        draws=(mean + drawn[:, None]).astype(np.float32),
        second=np.array([np.sum(values**2)]),
        third=np.array([np.sum(values**3)]),
    )


def test_the_interval_is_never_narrower_than_students() -> None:
    found = resampled(0.1, list(np.random.default_rng(1).normal(0.0, 0.02, 30)))
    figure = found.estimate((0,), images=30, freedom=29, bounds=(-1.0, 1.0))
    reach = stats.t.ppf(0.975, 29) * np.sqrt(found.second[0])
    assert figure.low is not None
    assert figure.high is not None
    assert figure.low <= 0.1 - reach + 1e-9
    assert figure.high >= 0.1 + reach - 1e-9
    assert figure.high - figure.low < 2.6 * reach
    assert figure.n == 30


def test_skewed_parts_give_a_skewed_interval() -> None:
    figure = resampled(0.1, [0.0] * 28 + [0.05, 0.05]).estimate(
        (0,), images=30, freedom=29, bounds=(-1.0, 1.0)
    )
    assert figure.low is not None
    assert figure.high is not None
    assert figure.high - 0.1 > 0.1 - figure.low


@pytest.mark.parametrize("mean", [0.0, 1.0, -0.4])
def test_unanimous_images_give_the_exact_bound(mean: float) -> None:
    figure = resampled(mean, [0.0] * 12).estimate((0,), images=12, freedom=11, bounds=(-1.0, 1.0))
    assert (figure.low, figure.high) == pytest.approx(agreeing_ends(mean, 12, (-1.0, 1.0)))


def test_an_interval_stays_within_its_bounds() -> None:
    figure = resampled(0.95, [0.05, -0.05] * 5).estimate((0,), images=10, freedom=9, bounds=(0.0, 1.0))
    assert figure.high == 1.0


def test_p_is_from_students_two_sided_test() -> None:
    found = resampled(0.1, list(np.random.default_rng(1).normal(0.0, 0.02, 30)))
    expected = 2 * stats.t.sf(0.1 / np.sqrt(found.second[0]), 29)
    assert found.p((0,), images=30, freedom=29) == pytest.approx(expected)


def test_unanimous_images_give_the_sign_test_p() -> None:
    assert resampled(0.0, [0.0] * 8).p((0,), images=8, freedom=7) == 1.0
    assert resampled(1.0, [0.0] * 8).p((0,), images=8, freedom=7) == 2 * 0.5**8


def test_few_degrees_of_freedom_widen_the_tails() -> None:
    assert tails_of(4)[1] == pytest.approx(2.776, abs=0.001)
    assert list(tails_of(0)) == list(tails_of(1))
