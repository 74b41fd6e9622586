"""The interval of a paired difference of proportions: published examples, and what it covers."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.statistics.paired_proportions import paired_difference


def test_a_published_example() -> None:
    # Newcombe 1998, table II: a = 36, b = 12, c = 2, d = 0, method 10.
    found = paired_difference(36, 12, 2, 0)
    assert [found.low, found.high] == pytest.approx([0.0569, 0.3404], abs=1e-4)


def test_without_units_there_is_no_figure_and_where_none_is_lost_some_may_be() -> None:
    assert paired_difference(0, 0, 0, 0).estimate is None
    mirrored = paired_difference(47, 0, 2, 5)
    assert mirrored.estimate == pytest.approx(-2 / 54)
    assert mirrored.high is not None
    assert 0.02 < mirrored.high < 0.08
    whole = paired_difference(54, 0, 0, 0)
    assert whole.high is not None
    assert whole.high > 0.05


@pytest.mark.parametrize("n", [20, 54, 200])
@pytest.mark.parametrize(
    ("lost", "gained", "right"), [(0.02, 0.0, 0.9), (0.05, 0.02, 0.87), (0.3, 0.01, 0.9)]
)
def test_it_covers_rare_losses(n: int, lost: float, gained: float, right: float) -> None:
    generator = np.random.default_rng(n)
    shares = [right - lost, lost, gained, 1 - right - gained]
    covered = 0
    for both, only_first, only_second, neither in generator.multinomial(n, shares, 1000).tolist():
        found = paired_difference(both, only_first, only_second, neither)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= lost - gained <= found.high
    assert covered / 1000 >= 0.935
