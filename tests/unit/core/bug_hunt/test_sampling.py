"""Failure rates under three sampling rules: exact expectations and coverages, by adding up all outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import comb

import numpy as np
import pytest

from counterpose_core.bug_hunt.comparison import FailureCounts
from counterpose_core.bug_hunt.sampling import (
    LEAST_STEP,
    FixedSampling,
    InverseSampling,
    SequentialSampling,
    confidence_sequence,
    further_images,
    under_budget,
    until_decided,
)
from counterpose_core.contract.sampling_rules import FixedNumber, UntilDecided, UntilFailures
from counterpose_core.types import Estimate

RATES = (0.001, 0.01, 0.05, 0.2, 0.5, 0.9)
Outcome = tuple[float, Estimate]
Rule = FixedSampling | InverseSampling | SequentialSampling


def outcomes(rule: Rule, rate: float, most: int) -> Iterator[Outcome]:
    """Yield every way to the rule's end, by failures and images, with its probability."""
    alive = {0: 1.0}
    for images in range(1, most + 1):
        after: dict[int, float] = {}
        for failures, chance in alive.items():
            for more, share in ((1, rate), (0, 1.0 - rate)):
                after[failures + more] = after.get(failures + more, 0.0) + chance * share
        ended = [failures for failures in after if rule.is_decided(failures, images)]
        yield from ((after.pop(failures), rule.rate(failures, images)) for failures in ended)
        alive = after
    assert not alive, "the rule never ends"


def expected(found: list[Outcome]) -> float:
    """The mean estimate."""
    return sum(chance * (rate.estimate or 0.0) for chance, rate in found)


def covered(found: list[Outcome], truth: float) -> float:
    """The probability that the interval holds the truth."""
    held = [chance for chance, rate in found if _low(rate) <= truth <= _high(rate)]
    return sum(held)


def _low(rate: Estimate) -> float:
    assert rate.low is not None
    return rate.low


def _high(rate: Estimate) -> float:
    assert rate.high is not None
    return rate.high


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("most", [5, 40, 200])
def test_inverse_sampling_is_unbiased_and_covers_even_where_the_budget_ends_it(
    rate: float, most: int
) -> None:
    found = list(outcomes(InverseSampling(failures=5, most_images=most), rate, most))
    assert sum(chance for chance, _ in found) == pytest.approx(1.0)
    assert expected(found) == pytest.approx(rate, rel=1e-9)
    assert covered(found, rate) >= 0.95


def test_the_share_of_the_paper_is_five_per_cent_too_high() -> None:
    rule, rate = InverseSampling(failures=20, most_images=4000), 0.05
    ends = [(chance, 20 / found.n) for chance, found in outcomes(rule, rate, 4000)]
    assert sum(chance * share for chance, share in ends) / rate == pytest.approx(1.05, abs=0.01)


@pytest.mark.parametrize("rate", RATES)
def test_fixed_sampling_is_unbiased(rate: float) -> None:
    found = list(outcomes(FixedSampling(images=30), rate, 30))
    assert expected(found) == pytest.approx(rate, rel=1e-9)


@pytest.mark.parametrize("rate", RATES)
def test_a_confidence_sequence_holds_the_rate_at_every_look(rate: float) -> None:
    never_left, alive = 0.0, {0: 1.0}
    for images in range(1, 301):
        after: dict[int, float] = {}
        for failures, chance in alive.items():
            for more, share in ((1, rate), (0, 1.0 - rate)):
                after[failures + more] = after.get(failures + more, 0.0) + chance * share
        alive = {failures: chance for failures, chance in after.items() if _holds(failures, images, rate)}
        never_left = sum(alive.values())
    assert never_left >= 0.95


def _holds(failures: int, images: int, rate: float) -> bool:
    low, high = confidence_sequence(failures, images)
    return low <= rate <= high


@pytest.mark.parametrize("sure", [0, 50])
def test_a_sequence_without_a_failure_or_with_nothing_else_ends_at_a_certain_rate(sure: int) -> None:
    low, high = confidence_sequence(sure, 50)
    assert (low, high)[sure // 50] == sure / 50
    assert 0.0 < high - low < 0.2


def test_sequential_sampling_stops_early_on_either_side_of_its_threshold() -> None:
    rule = SequentialSampling(threshold=0.1, most_images=10_000)
    generator = np.random.default_rng(5)

    def images_until_decided(rate: float) -> int:
        failures = images = 0
        while not rule.is_decided(failures, images):
            images += 1
            failures += generator.random() < rate
        return images

    assert images_until_decided(0.6) < 30
    assert images_until_decided(0.0) < 100
    assert images_until_decided(0.1) > 200


@pytest.mark.parametrize(
    "rule", [lambda: FixedSampling(images=0), lambda: InverseSampling(failures=1, most_images=9)]
)
def test_a_rule_that_can_tell_nothing_is_refused(rule: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="greater than or equal"):
        rule()


def test_no_image_is_no_rate() -> None:
    for rule in (InverseSampling(most_images=9), SequentialSampling(threshold=0.1, most_images=9)):
        assert rule.rate(0, 0) == Estimate(estimate=None, low=None, high=None, n=0)


def test_the_number_of_ways_to_an_end_gives_the_unbiased_estimate() -> None:
    rule = InverseSampling(failures=4, most_images=12)
    at_budget = comb(11, 2 - 1) / comb(12, 2)
    assert rule.rate(2, 12).estimate == pytest.approx(at_budget)
    at_failures = comb(9 - 2, 4 - 2) / comb(9 - 1, 4 - 1)
    assert rule.rate(4, 9).estimate == pytest.approx(at_failures)


def test_a_request_s_rule_gets_its_budget() -> None:
    assert under_budget(FixedNumber(), 90) == FixedSampling(images=90)
    assert under_budget(UntilFailures(failures=7), 90) == InverseSampling(failures=7, most_images=90)
    found = under_budget(UntilDecided(threshold=0.1), 90)
    assert found == SequentialSampling(threshold=0.1, most_images=90, least_failures=20)


@pytest.mark.paper("BUGS-S4.1-stop")
def test_images_behind_the_one_that_decided_do_not_count() -> None:
    failed = [False, True, False, True, False, True, True]
    rule = InverseSampling(failures=3, most_images=100)
    assert until_decided(rule, failed) == FailureCounts(3, 6)
    assert until_decided(rule, failed[:5]) == FailureCounts(2, 5)
    assert until_decided(FixedSampling(images=7), failed) == FailureCounts(4, 7)


@pytest.mark.paper("BUGS-S4.1-stop")
def test_images_are_drawn_until_all_classifiers_have_their_failures() -> None:
    rule = InverseSampling(failures=20, most_images=1000)
    done, open_ = FailureCounts(30, 100), FailureCounts(10, 100)
    assert further_images(rule, 100, [done]) == 0
    # Ten more failures at one in ten, but never more than doubled.
    assert further_images(rule, 100, [done, open_]) == 97
    assert further_images(rule, 100, [FailureCounts(2, 100)]) == 100
    assert further_images(rule, 990, [open_]) == 10
    assert further_images(rule, 1000, [open_]) == 0
    assert further_images(rule, 40, [FailureCounts(19, 40)]) == LEAST_STEP


def test_drawing_ends_where_the_rest_of_the_budget_cannot_bring_two_failures() -> None:
    rule = InverseSampling(failures=20, most_images=1000)
    never = FailureCounts(0, 700)
    assert further_images(rule, 400, [FailureCounts(0, 400)]) == 400
    assert further_images(rule, 900, [never]) == 0
    assert further_images(rule, 900, [never, FailureCounts(1, 20)]) > 0
    assert further_images(rule, 900, [FailureCounts(2, 900)]) == 100
    assert further_images(FixedSampling(images=1000), 900, [never]) == 100


def test_above_its_threshold_a_sequence_goes_on_to_the_failures_that_somebody_wants() -> None:
    rule = SequentialSampling(threshold=0.05, most_images=500, least_failures=20)
    assert not rule.is_decided(15, 40)
    assert rule.is_decided(20, 55)
    assert rule.is_decided(0, 300)
    assert further_images(rule, 40, [FailureCounts(15, 40)]) == 40


def test_an_interval_of_a_drawing_that_was_stopped_early_holds_at_every_stop() -> None:
    rules = (InverseSampling(failures=20, most_images=1000), FixedSampling(images=1000))
    for rule in rules:
        found = rule.rate(5, 100, ended=False)
        assert (found.estimate, found.low, found.high) == (0.05, *confidence_sequence(5, 100))
        assert rule.rate(0, 0, ended=False).n == 0
        ended = rule.rate(5, 1000)
        assert (ended.estimate, ended.n) == (0.005, 1000)
        assert _high(ended) < confidence_sequence(5, 1000)[1]
    # Twenty failures end it by itself, whoever stops it then.
    assert rules[0].rate(20, 400, ended=False) == rules[0].rate(20, 400)
