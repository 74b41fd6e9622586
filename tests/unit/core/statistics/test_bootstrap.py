"""Estimates and the coverage of their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from counterpose_core.shift_benchmark import generator_error
from counterpose_core.statistics import bootstrap
from counterpose_core.statistics.bootstrap import (
    CONFIDENCE,
    bootstrap_mean,
    bootstrap_ratio,
    bootstrap_unpaired,
    mean_by_source,
    proportion,
)
from counterpose_core.types import Estimate


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def ends(figure: Estimate) -> tuple[float, float]:
    assert figure.low is not None
    assert figure.high is not None
    return figure.low, figure.high


def test_each_source_has_equal_weight_whatever_its_number_of_values() -> None:
    means = mean_by_source([("a", 0.0), ("b", 1.0), ("a", 1.0), ("a", 1.0)])
    assert means == {"a": pytest.approx(2 / 3), "b": 1.0}


def test_no_observations_give_no_estimate() -> None:
    nothing = Estimate(estimate=None, low=None, high=None, n=0)
    assert bootstrap_mean([], generator()) == proportion(0, 0) == bootstrap_ratio({}, generator()) == nothing
    assert bootstrap_unpaired({}, {"a": (1, 1)}, generator()) == nothing


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (10, 10), (1, 1), (0, 1)])
def test_unanimous_trials_give_an_exact_interval_of_nonzero_width(successes: int, n: int) -> None:
    low, high = ends(proportion(successes, n))
    bound = 0.025 ** (1 / n)
    assert (low, high) == pytest.approx((bound, 1.0) if successes else (0.0, 1.0 - bound))


@pytest.mark.parametrize(
    ("successes", "n"), [(0, 7), (1, 20), (7, 20), (20, 20), (38, 39), (38, 40), (300, 1000)]
)
def test_mixed_proportions_use_wilson_from_40_trials_on_and_clopper_pearson_before(
    successes: int, n: int
) -> None:
    method = "exact" if n < 40 or successes in (0, n) else "wilson"
    expected = stats.binomtest(successes, n).proportion_ci(method=method)
    assert ends(proportion(successes, n)) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 19, 20, 200])
@pytest.mark.parametrize("value", [0.0, -0.8, 1.0])
def test_equal_values_give_an_interval_of_nonzero_width(n: int, value: float) -> None:
    figure = bootstrap_mean([value] * n, generator())
    low, high = ends(figure)
    assert high - low > 0.01
    assert low <= value <= high
    assert low >= -1.0
    assert high <= 1.0


def test_equal_rates_give_the_exact_binomial_bound() -> None:
    assert bootstrap_mean([1.0] * 30, generator(), bounds=(0.0, 1.0)) == proportion(30, 30)


def test_the_same_generator_gives_the_same_interval() -> None:
    values = list(generator(1).uniform(-1, 1, size=40))
    assert bootstrap_mean(values, generator(5)) == bootstrap_mean(values, generator(5))
    assert bootstrap_mean(values, generator(5)) != bootstrap_mean(values, generator(6))


@pytest.mark.paper("LANCE-S4.1-dacc-paired")
def test_bca_matches_an_independent_implementation() -> None:
    values = -(generator(2).beta(0.6, 2.0, size=60))
    reference = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="BCa", rng=generator(3)
    ).confidence_interval
    reach = stats.t.ppf(0.975, 59) * stats.sem(values)
    hull = (min(reference.low, values.mean() - reach), max(reference.high, values.mean() + reach))
    assert ends(bootstrap_mean(list(values), generator(4), draws=20_000)) == pytest.approx(hull, abs=0.004)


def test_skewed_data_get_a_skewed_interval() -> None:
    figure = bootstrap_mean([0.0] * 36 + [-0.9] * 4, generator())
    low, high = ends(figure)
    assert figure.estimate is not None
    assert figure.estimate - low > high - figure.estimate


@pytest.mark.parametrize("n", [3, 10, 40])
def test_the_interval_contains_students_interval(n: int) -> None:
    for seed in range(20):
        values = list(generator(seed).uniform(-0.3, 0.3, size=n))
        low, high = ends(bootstrap_mean(values, generator(), draws=300))
        reach = stats.t.ppf(0.975, n - 1) * stats.sem(values)
        assert low <= np.mean(values) - reach + 1e-12
        assert high >= np.mean(values) + reach - 1e-12


def test_many_sources_are_resampled_in_bounded_memory() -> None:
    values = list(generator(7).uniform(-1, 1, size=30_000))
    low, high = ends(bootstrap_mean(values, generator(), draws=300))
    assert high - low == pytest.approx(2 * 1.96 * np.std(values) / np.sqrt(30_000), rel=0.3)


def test_the_precision_of_a_share_depends_on_its_number_of_sources() -> None:
    spread = {str(source): (source % 2, 1) for source in range(100)}
    clustered = {str(source): (10 * (source % 2), 10) for source in range(10)}
    narrow, wide = bootstrap_ratio(spread, generator()), bootstrap_ratio(clustered, generator())
    assert narrow.estimate == wide.estimate == 0.5
    assert narrow.n == wide.n == 100
    assert np.subtract(*ends(wide)) < 1.5 * np.subtract(*ends(narrow))


def test_the_bound_for_unanimous_items_counts_sources() -> None:
    figure = bootstrap_ratio({str(source): (5, 5) for source in range(8)}, generator())
    assert ends(figure) == ends(proportion(8, 8))
    assert figure.n == 40


def test_sources_that_reached_no_filter_are_not_counted() -> None:
    figure = bootstrap_ratio({"a": (0, 0), "b": (1, 2), "c": (2, 2)}, generator())
    assert figure.n == 4
    assert figure.estimate == 0.75


def test_one_source_gives_no_evidence() -> None:
    assert ends(bootstrap_ratio({"a": (3, 4)}, generator())) == (0.0, 1.0)


def test_unpaired_images_have_equal_weight() -> None:
    before = {str(source): (1, 1) for source in range(10)}
    after = {"0": (0, 8), "1": (2, 2)}
    figure = bootstrap_unpaired(before, after, generator())
    low, high = ends(figure)
    assert figure.estimate == pytest.approx(0.8)
    assert figure.n == 10
    assert low <= 0.8 <= high


def test_the_precision_of_an_unpaired_drop_depends_on_its_number_of_sources() -> None:
    before = {str(source): (1, 1) for source in range(60)}
    after = {source: (source[-1] in "02468", 1) for source in before}
    low, high = ends(bootstrap_unpaired(before, after, generator()))
    assert high - low == pytest.approx(2 * 1.96 * 0.5 / np.sqrt(60), rel=0.2)


def test_unanimous_unpaired_shares_have_an_interval() -> None:
    right = {str(source): (1, 1) for source in range(10)}
    low, high = ends(bootstrap_unpaired(right, right, generator()))
    assert low < 0.0 < high


def test_the_interval_of_very_skewed_values_contains_their_mean() -> None:
    figure = bootstrap_mean([0.0] * 29 + [1.0], generator())
    low, high = ends(figure)
    assert -0.05 < low < 1 / 30 < high < 0.4


def test_the_quantile_of_wilsons_interval_is_scipys() -> None:
    # Written down, so that no process computes it at its start.
    assert bootstrap._NORMAL == generator_error._NORMAL == stats.norm.ppf((1.0 + CONFIDENCE) / 2.0)


@pytest.mark.parametrize("moved", [-2e-7, 0.0, 2e-7])
@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_draws_that_equal_the_estimate_but_for_rounding_count_half(moved: float, scale: float) -> None:
    # A share of three of nine images, of which a fifth of all samples has as many again.
    draws = np.random.default_rng(5).binomial(9, 1 / 3, 2000) / 9 * scale
    equal = np.abs(draws - scale / 3) < 1e-9
    assert 0.1 < equal.mean() < 0.4
    rounded = np.where(equal, scale / 3 + moved * scale, draws)
    ends = bootstrap.bca_ends(scale / 3, rounded, skew=0.05, tails=np.array([-2.0, 2.0]))
    exact = bootstrap.bca_ends(scale / 3, draws, skew=0.05, tails=np.array([-2.0, 2.0]))
    assert ends == pytest.approx(exact, abs=1e-6 * scale)
