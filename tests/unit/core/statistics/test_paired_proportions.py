"""A paired difference of proportions: published examples, what its interval covers, errors of its test."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.stats

from counterpose_core.statistics.paired_proportions import paired_difference, paired_excess_p


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


@pytest.mark.parametrize("n", [12, 40, 96])
def test_an_error_at_the_margin_itself_is_no_more_frequent_than_the_level(n: int) -> None:
    outcomes = [(lost, gained) for lost in range(n + 1) for gained in range(n + 1 - lost)]
    p = np.array([paired_excess_p(lost, gained, n, 0.05) for lost, gained in outcomes])
    counts = np.array([(lost, gained, n - lost - gained) for lost, gained in outcomes])
    for gain in (0.0, 0.005, 0.02, 0.05, 0.12, 0.3, 0.475):
        share = scipy.stats.multinomial.pmf(counts, n, [0.05 + gain, gain, 0.95 - 2 * gain])
        errors = [float(share[p <= level].sum()) / level for level in (0.05, 0.025, 0.001, 0.05 / 24)]
        assert max(errors) <= 1.0, (gain, errors)
        # Sharp enough where answers turn: a test that never rejects would pass the rest.
        assert n < 96 or gain < 0.05 or errors[0] > 0.7


def test_the_larger_the_loss_and_the_smaller_the_margin_the_smaller_the_p() -> None:
    rising = [paired_excess_p(lost, 2, 96, 0.05) for lost in range(97 - 2)]
    assert all(after <= before + 1e-12 for before, after in pairwise(rising))
    assert paired_excess_p(6, 2, 96, 0.05) == 1.0
    assert paired_excess_p(20, 2, 96, 0.05) > paired_excess_p(20, 2, 96, 0.01)
    assert 0.0 < paired_excess_p(5000, 0, 5000, 0.05) < 1e-12
