"""Evidence by pairs: its mean under the null at every stop, its p, futility, and ratios at any stop."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterpose_core.bug_hunt.comparison import FailureCounts, rate_ratio
from counterpose_core.bug_hunt.pairs import (
    DiscordantPairs,
    detectable_by_pairs,
    log_e_value,
    ratio_at_any_stop,
)


@pytest.mark.parametrize("share", [0.5, 0.3])
def test_the_mean_evidence_is_at_most_one_if_the_description_fails_no_more_often(share: float) -> None:
    for pairs in (1, 5, 40):
        mean = sum(
            math.comb(pairs, k) * share**k * (1 - share) ** (pairs - k) * math.exp(log_e_value(k, pairs - k))
            for k in range(pairs + 1)
        )
        assert mean <= 1.0 + 1e-9
        if share == 0.5:
            assert mean == pytest.approx(1.0)


def test_whoever_stops_at_the_first_good_look_is_wrong_in_five_of_a_hundred_at_most() -> None:
    alive, stopped = {0: 1.0}, 0.0
    for pairs in range(1, 301):
        after: dict[int, float] = {}
        for ours, chance in alive.items():
            for more in (0, 1):
                after[ours + more] = after.get(ours + more, 0.0) + chance / 2
        proven = [ours for ours in after if log_e_value(ours, pairs - ours) >= math.log(20)]
        stopped += sum(after.pop(ours) for ours in proven)
        alive = after
    assert 0.01 < stopped <= 0.05


def test_pairs_are_made_by_the_place_of_their_noise() -> None:
    described = {0: True, 1: True, 2: False, 3: True, 9: True}
    found = DiscordantPairs.of(described, {3: True, 2: True, 1: False, 0: False, 8: True})
    assert found == DiscordantPairs(described=2, baseline=1, pairs=4)


def test_seven_failures_of_the_description_alone_prove_it() -> None:
    assert DiscordantPairs(6, 0, 6).p > 0.05 > DiscordantPairs(7, 0, 7).p
    assert DiscordantPairs(0, 90, 100).p == 1.0
    assert DiscordantPairs(0, 3000, 3000).p == 1.0
    assert 0.0 <= DiscordantPairs(3000, 0, 3000).p < 1e-300


def test_pairs_that_can_prove_nothing_any_more_are_futile() -> None:
    assert DiscordantPairs(0, 0, 32).is_futile(64)
    assert not DiscordantPairs(3, 0, 32).is_futile(64)
    assert DiscordantPairs(3, 3, 32).is_futile(64)
    assert not DiscordantPairs(0, 0, 0).is_futile(64)
    assert DiscordantPairs(6, 0, 64).is_futile(64)


def test_a_ratio_at_any_stop_is_wider_than_one_of_fixed_numbers_and_holds() -> None:
    generator = np.random.default_rng(3)
    described, baseline = FailureCounts(40, 100), FailureCounts(5, 100)
    found, fixed = ratio_at_any_stop(described, baseline), rate_ratio(described, baseline)
    assert found.ratio == fixed.ratio == 8.0
    assert found.low < fixed.low
    assert found.high is not None
    assert fixed.high is not None
    assert found.high > fixed.high
    held = 0
    for _ in range(200):
        ours, theirs = generator.random((2, 60)) < np.array([[0.5], [0.2]])
        ends = [
            ratio_at_any_stop(FailureCounts(int(ours[:n].sum()), n), FailureCounts(int(theirs[:n].sum()), n))
            for n in (10, 25, 60)
        ]
        held += all(each.low <= 2.5 <= (each.high or math.inf) for each in ends)
    assert held >= 190


def test_without_images_or_failures_of_the_baseline_a_ratio_is_open() -> None:
    assert ratio_at_any_stop(FailureCounts(0, 0), FailureCounts(1, 5)).ratio is None
    found = ratio_at_any_stop(FailureCounts(30, 50), FailureCounts(0, 50))
    assert (found.ratio, found.high) == (None, None)
    assert found.low > 2.0


def test_the_rate_that_pairs_detect_is_proven_in_four_of_five_hunts() -> None:
    generator = np.random.default_rng(1)
    rate = detectable_by_pairs(96, tests=2)
    assert rate is not None
    assert 0.08 < rate < 0.15
    failures = generator.binomial(96, rate, 2000)
    proven = np.mean([DiscordantPairs(int(each), 0, 96).p * 2 <= 0.05 for each in failures])
    assert 0.77 < proven < 0.85
    assert detectable_by_pairs(6, tests=1) is None
