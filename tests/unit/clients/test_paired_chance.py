"""The SDK's own statistics of pairs, held against those of the product and against exact ones."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from scipy import stats

from counterpose._paired_chance import holm, mean_difference, sign_flip_p
from counterpose_core.statistics import bootstrap, p_values


def test_of_units_of_one_edit_the_p_is_mcnemars_exact_one() -> None:
    # Nine lost, one gained: twice the binomial tail of ten coins.
    values = [1.0] * 9 + [-1.0] + [0.0] * 30
    assert sign_flip_p(values, random.Random(0)) == pytest.approx(2 * (1 + 10) / 2**10)


def test_random_signs_agree_with_the_exact_p() -> None:
    generator = np.random.default_rng(3)
    values = (generator.normal(0.3, 1.0, 16)).tolist()
    one_sided = p_values.sign_flip_p(values, np.random.default_rng(0), draws=200_000)
    assert sign_flip_p(values, random.Random(0)) == pytest.approx(2 * one_sided, abs=0.02)


def test_nothing_that_differs_is_no_evidence() -> None:
    assert sign_flip_p([0.0, 0.0], random.Random(0)) == 1.0
    assert sign_flip_p([], random.Random(0)) == 1.0


def test_holm_is_that_of_the_product() -> None:
    ps = [0.01, 0.04, 0.03, 0.005, 1.0]
    assert holm(ps) == pytest.approx(p_values.holm(ps))
    assert holm([]) == []


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
def test_the_interval_of_few_sources_contains_students(n: int) -> None:
    values = np.random.default_rng(n).normal(0.0, 0.01, n)
    found = mean_difference(values.tolist(), random.Random(1), (-1.0, 1.0))
    reach = stats.sem(values) * stats.t.ppf(0.975, n - 1)
    assert found.low is not None
    assert found.high is not None
    # Of five sources and more by an expansion, whose quantile is 0.3 % too small at most.
    assert values.mean() - found.low >= 0.997 * reach
    assert found.high - values.mean() >= 0.997 * reach


@pytest.mark.parametrize("n", [12, 20, 60])
def test_the_interval_is_about_that_of_the_product(n: int) -> None:
    values = np.random.default_rng(n).normal(0.1, 0.3, n).tolist()
    ours = mean_difference(values, random.Random(1), (-1.0, 1.0))
    theirs = bootstrap.bootstrap_mean(values, np.random.default_rng(1))
    assert ours.estimate == pytest.approx(theirs.estimate)
    assert ours.n == theirs.n == n
    assert None not in (ours.low, ours.high, theirs.low, theirs.high)
    width = (theirs.high or 0.0) - (theirs.low or 0.0)
    assert ours.low == pytest.approx(theirs.low, abs=0.1 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.1 * width)


def test_values_that_agree_have_the_exact_bound_and_no_width_of_zero() -> None:
    ours = mean_difference([0.0] * 10, random.Random(0), (-1.0, 1.0))
    theirs = bootstrap.bootstrap_mean([0.0] * 10, np.random.default_rng(0))
    assert [ours.low, ours.high] == pytest.approx([theirs.low, theirs.high])
    assert ours.low is not None
    assert ours.low < 0


@pytest.mark.parametrize("n", [4, 20, 40])
def test_the_interval_of_values_that_agree_covers_what_they_did_not_show(n: int) -> None:
    # The largest share of other sources that n miss in more than one of forty samples, all at a bound.
    share = 1 - 0.0251 ** (1 / n)
    generator = random.Random(n)
    covered = 0
    for _ in range(2000):
        values = [100.0 * (generator.random() < share) for _ in range(n)]
        found = mean_difference(values, generator, (-100.0, 100.0)) if not any(values) else None
        covered += found is None or (found.high or 0.0) >= 100 * share
    assert covered == 2000


def test_the_interval_covers_the_mean_of_few_skewed_differences() -> None:
    # One source in five loses an edit: means of twelve sources.
    generator = random.Random(5)
    covered = 0
    for _ in range(300):
        values = [float(generator.random() < 0.2) for _ in range(12)]
        found = mean_difference(values, generator, (-1.0, 1.0))
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.2 <= found.high
    assert covered / 300 > 0.9


def test_the_same_generator_gives_the_same_interval() -> None:
    values = [0.1, 0.4, -0.2, 0.3, 0.0, 0.2]
    first, again = (mean_difference(values, random.Random(7), (-1.0, 1.0)) for _ in range(2))
    assert first == again
    assert not math.isclose(first.low or 0.0, first.high or 0.0)
