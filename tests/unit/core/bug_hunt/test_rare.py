"""Rates of rare failures: unbiased over strata, exact products, and images where failures are."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest

from counterpose_core.bug_hunt.comparison import FailureCounts
from counterpose_core.bug_hunt.rare import Stratum, allocate, contribution, divide, rare_rate
from evaluation.reference.plain_figures import variance_of

SHARES, RATES, IMAGES = (0.001, 0.0004, 0.9986), (0.5, 0.9, 0.00001), (12, 6, 4)


def chance(failures: int, images: int, rate: float) -> float:
    return comb(images, failures) * rate**failures * (1 - rate) ** (images - failures)


def test_the_estimate_is_unbiased_and_its_variance_is_told() -> None:
    mean = square = covered = 0.0
    truth = float(np.dot(SHARES, RATES))
    for counts in product(*(range(n + 1) for n in IMAGES)):
        weight = float(np.prod([chance(k, n, p) for k, n, p in zip(counts, IMAGES, RATES, strict=True)]))
        found = rare_rate([Stratum(*each) for each in zip(SHARES, counts, IMAGES, strict=True)])
        assert found.estimate is not None
        assert found.low is not None
        assert found.high is not None
        mean += weight * found.estimate
        square += weight * found.estimate**2
        covered += weight * (found.low <= truth <= found.high)
    assert mean == pytest.approx(truth, rel=1e-9)
    assert square - mean**2 == pytest.approx(variance_of(SHARES, RATES, IMAGES), rel=1e-6)
    assert covered >= 0.95


def test_one_stratum_is_plain_sampling() -> None:
    found = rare_rate([Stratum(1.0, 3, 1000)])
    assert (found.estimate, found.n) == (0.003, 1000)
    # The exact interval of a Poisson count of three.
    assert found.low == pytest.approx(0.6187e-3, rel=1e-3)
    assert found.high == pytest.approx(8.767e-3, rel=1e-3)


def test_without_a_failure_the_interval_tells_what_the_heaviest_stratum_may_hide() -> None:
    found = rare_rate([Stratum(0.001, 0, 500), Stratum(0.999, 0, 1000)])
    assert (found.estimate, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(3.689 * 0.999e-3, rel=1e-3)


def test_images_go_where_the_pilot_shows_failures_and_half_goes_by_the_shares() -> None:
    pilot = [FailureCounts(16, 32), FailureCounts(0, 32), FailureCounts(0, 32)]
    assert allocate([0.001, 0.004, 0.995], pilot, 2000) == [1000, 4, 994]
    # Where no pilot shows any, images are divided as the generator would.
    assert allocate([0.1, 0.4, 0.5], [FailureCounts(0, 32)] * 3, 203) == [21, 81, 101]
    # A pilot in which all images fail says not that all will.
    always = [FailureCounts(32, 32), FailureCounts(16, 32)]
    assert allocate([0.5, 0.5], always, 1000)[0] > 250
    assert min(allocate([1e-9, 1.0], [FailureCounts(0, 32), FailureCounts(1, 32)], 100)) == 1
    # A hundred rare strata take no image more than there are.
    rare = [1e-6] * 99 + [1.0 - 99e-6]
    assert sum(allocate(rare, [FailureCounts(0, 32)] * 100, 150)) <= 150
    with pytest.raises(ValueError, match="99 images are too few for 100 strata"):
        allocate(rare, [FailureCounts(0, 32)] * 100, 99)


def test_several_classifiers_share_the_mean_of_what_is_best_for_each() -> None:
    shares, none = [0.001, 0.002, 0.997], FailureCounts(0, 32)
    first, second = [FailureCounts(16, 32), none, none], [none, FailureCounts(16, 32), none]
    each = [allocate(shares, pilot, 2000) for pilot in (first, second)]
    assert divide(shares, [first, second], 2000) == [sum(pair) // 2 for pair in zip(*each, strict=True)]
    assert divide(shares, [first], 2000) == each[0]


def test_no_image_stands_for_more_than_twice_what_a_naive_one_does() -> None:
    pilot = [FailureCounts(16, 32), FailureCounts(0, 32)]
    images = allocate([0.001, 0.999], pilot, 2000)
    weights = [share / number for share, number in zip([0.001, 0.999], images, strict=True)]
    assert max(weights) <= 2 / 2000 * 1.01


def places(failures: int, images: int, first: int = 0) -> dict[int, bool]:
    return {first + place: place < failures for place in range(images)}


def test_a_contribution_is_share_times_rate_and_its_interval_holds_both() -> None:
    found = contribution(places(3, 100), places(60, 80, first=500))
    assert found.n == 100
    assert found.estimate == pytest.approx(0.0225)
    never = contribution(places(0, 500), places(20, 20, first=500))
    assert (never.estimate, never.low) == (0.0, 0.0)
    assert never.high is not None
    assert 0.007 < never.high < 0.01
    assert contribution({}, places(1, 2)).estimate is None
    assert contribution(places(1, 1), places(1, 1)).estimate is None


def test_a_contribution_is_unbiased_though_both_images_of_a_place_share_their_noise() -> None:
    generator = np.random.default_rng(2)
    held, estimates = 0, []
    for _ in range(600):
        noise = generator.random(30)
        # Snow where the noise is low, and failures where it is low, too: the plain product is too high.
        found = contribution(dict(enumerate((noise < 0.2).tolist())), dict(enumerate((noise < 0.5).tolist())))
        assert found.estimate is not None
        assert found.low is not None
        assert found.high is not None
        estimates.append(found.estimate)
        held += found.low <= 0.1 <= found.high
    error = float(np.std(estimates)) / np.sqrt(len(estimates))
    assert np.mean(estimates) == pytest.approx(0.1, abs=3 * error)
    assert held >= 570
