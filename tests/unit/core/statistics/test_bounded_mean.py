"""The mean of bounded values: its interval by betting, and where the bootstrap takes over."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.statistics.bootstrap import bootstrap_mean, proportion
from counterpose_core.statistics.bounded_mean import (
    LEAST_SOURCES_FOR_HULL,
    betting_interval,
    bounded_mean,
)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("n", [3, 10, 25])
@pytest.mark.parametrize("share", [0.02, 0.3])
def test_the_betting_interval_covers_rare_losses_of_all(n: int, share: float) -> None:
    """The bootstrap's interval covers 2 % losses of 10 sources in a fifth of the runs."""
    draw = generator(n)
    held = 0
    for _ in range(300):
        low, high = betting_interval(-(draw.random(n) < share).astype(np.float64), (-1.0, 1.0))
        held += low <= -share <= high
    assert held / 300 >= 0.93


def test_the_interval_does_not_depend_on_the_order_and_mirrors() -> None:
    values = generator(1).uniform(-1.0, 0.4, size=12)
    low, high = betting_interval(values, (-1.0, 1.0))
    assert betting_interval(values[::-1], (-1.0, 1.0)) == pytest.approx((low, high))
    assert betting_interval(-values, (-1.0, 1.0)) == pytest.approx((-high, -low), abs=1e-6)
    assert low < values.mean() < high


def test_more_sources_and_less_spread_narrow_the_interval() -> None:
    def width(n: int, spread: float) -> float:
        low, high = betting_interval(np.linspace(-spread, spread, n), (-1.0, 1.0))
        return high - low

    assert width(6, 0.2) > width(12, 0.2) > width(24, 0.2) > width(24, 0.02)


def test_values_at_a_bound_give_an_interval_inside_it() -> None:
    low, high = betting_interval(np.ones(8), (-1.0, 1.0))
    assert 0.0 < low < high == 1.0
    assert betting_interval(np.array([0.0, 1.0]), (0.0, 1.0))[0] >= 0.0


@pytest.mark.parametrize("n", [1, 7, 39, 40, 60])
def test_the_bootstrap_takes_over_where_it_covers(n: int) -> None:
    values = generator(2).uniform(-0.5, 0.1, size=n)
    found = bounded_mean(values, generator(3))
    if n >= LEAST_SOURCES_FOR_HULL:
        assert found == bootstrap_mean(values.tolist(), generator(3))
    else:
        assert (found.low, found.high) == pytest.approx(betting_interval(values, (-1.0, 1.0)))
    assert found.estimate == pytest.approx(values.mean())
    assert found.n == n


def test_shares_of_right_answers_are_proportions() -> None:
    assert bounded_mean([1.0, 0.0, 1.0], generator(), bounds=(0.0, 1.0)) == proportion(2, 3)
    assert bounded_mean([], generator()).estimate is None
