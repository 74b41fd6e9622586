"""A description against the baseline: p, ratio and detectable rate, by adding up all outcomes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from counterpose_core.bug_hunt.comparison import (
    FailureCounts,
    above_baseline,
    detectable_rate,
    rate_ratio,
)

N = 40


@pytest.mark.paper("BUGS-S4.1-significance")
def test_the_p_is_fisher_s() -> None:
    table = [[9, 21], [1, 29]]
    expected = stats.fisher_exact(table, alternative="greater").pvalue
    assert above_baseline(FailureCounts(9, 30), FailureCounts(1, 30)) == pytest.approx(expected)


def test_the_paper_s_outside_evidence() -> None:
    """DALL-E 2 takes 9 of 30 flies on flowers for bees and none of 30 others; fences 4 against none."""
    assert above_baseline(FailureCounts(9, 30), FailureCounts(0, 30)) == pytest.approx(0.001, abs=5e-4)
    assert above_baseline(FailureCounts(4, 30), FailureCounts(0, 30)) == pytest.approx(0.056, abs=5e-4)


@pytest.mark.parametrize("rate", [0.02, 0.2, 0.5])
def test_equal_rates_are_rarely_told_apart(rate: float) -> None:
    chances = stats.binom.pmf(np.arange(N + 1), N, rate)
    rejected = sum(
        chances[x] * chances[y]
        for x in range(N + 1)
        for y in range(N + 1)
        if above_baseline(FailureCounts(x, N), FailureCounts(y, N)) <= 0.05
    )
    assert rejected <= 0.05


@pytest.mark.parametrize(("rate", "reference"), [(0.5, 0.5), (0.6, 0.1), (0.3, 0.02), (0.05, 0.1)])
def test_the_interval_of_the_ratio_covers(rate: float, reference: float) -> None:
    of_described = stats.binom.pmf(np.arange(N + 1), N, rate)
    of_baseline = stats.binom.pmf(np.arange(N + 1), N, reference)
    held = 0.0
    for x in range(N + 1):
        for y in range(N + 1):
            found = rate_ratio(FailureCounts(x, N), FailureCounts(y, N))
            below = found.high is None or rate / reference <= found.high
            held += of_described[x] * of_baseline[y] * (found.low <= rate / reference and below)
    assert held >= 0.93


def test_a_baseline_without_a_failure_bounds_the_ratio_from_below() -> None:
    found = rate_ratio(FailureCounts(30, 40), FailureCounts(0, 4000))
    assert (found.ratio, found.high) == (None, None)
    assert 500 < found.low < 3000


def test_a_ratio_lies_in_its_interval_and_more_images_narrow_it() -> None:
    few = rate_ratio(FailureCounts(6, 20), FailureCounts(2, 40))
    many = rate_ratio(FailureCounts(600, 2000), FailureCounts(200, 4000))
    for found in (few, many):
        assert found.ratio == pytest.approx(6.0)
        assert found.high is not None
        assert found.low < 6.0 < found.high
    assert many.high is not None
    assert few.high is not None
    assert many.high / many.low < few.high / few.low


def test_without_images_nothing_is_known() -> None:
    found = rate_ratio(FailureCounts(0, 0), FailureCounts(1, 9))
    assert (found.ratio, found.low, found.high) == (None, 0.0, None)


def test_more_images_detect_smaller_rates_and_more_descriptions_larger_ones() -> None:
    rates = [detectable_rate(0.02, images, 4) for images in (20, 80, 320)]
    assert None not in rates
    assert rates == sorted(rates, key=lambda rate: -(rate or 0.0))
    few, many = detectable_rate(0.02, 40, 1), detectable_rate(0.02, 40, 50)
    assert few is not None
    assert many is not None
    assert 0.02 < few < many
    assert detectable_rate(0.02, 3, 50) is None


def test_the_detectable_rate_is_proven_with_its_power() -> None:
    rate = detectable_rate(0.05, N, 5)
    assert rate is not None
    of_described = stats.binom.pmf(np.arange(N + 1), N, rate)
    of_baseline = stats.binom.pmf(np.arange(N + 1), N, 0.05)
    proven = sum(
        of_described[x] * of_baseline[y]
        for x in range(N + 1)
        for y in range(N + 1)
        if above_baseline(FailureCounts(x, N), FailureCounts(y, N)) <= 0.05 / 5
    )
    assert proven == pytest.approx(0.8, abs=1e-6)


def test_more_failures_than_images_are_refused() -> None:
    with pytest.raises(ValueError, match="3 of 2 images"):
        FailureCounts(3, 2)
