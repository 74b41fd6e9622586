"""Curves by level: bisection says what a grid says, is corrected where it errs, and covers the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterpose_core.stress_test.severity.curves import (
    LevelAnswers,
    is_decided,
    loss_level,
    monotonicity,
)
from counterpose_core.stress_test.severity.draw import claimed_level, full_share, share_of
from counterpose_core.stress_test.severity.failure_points import next_level
from counterpose_core.types import Estimate

LEVELS = (1, 2, 3, 4, 5)


def drawn(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def bisected(before: bool, grid: dict[int, bool]) -> dict[int, bool]:
    own: dict[int, bool] = {}
    while before and (level := next_level(LEVELS, own)) is not None:
        own[level] = grid[level]
    return own


def answers_of(right: Any, before: Any, full: Any, groups: Any = None) -> LevelAnswers:
    """The answers to images of which ``right`` (n, 5) is the full grid, and only ``full`` ones have it."""
    before, full = np.asarray(before, dtype=np.bool_), np.asarray(full, dtype=np.bool_)
    grids = [dict(zip(LEVELS, map(bool, row), strict=True)) for row in right]
    rows = [grid if full[at] else bisected(bool(before[at]), grid) for at, grid in enumerate(grids)]
    units = np.arange(len(rows)) if groups is None else np.asarray(groups)
    return LevelAnswers.of(LEVELS, units.astype(np.intp), before, rows, full)


def monotone(n: int, seed: int) -> tuple[Any, Any]:
    """Which of n images are right at each level, and at level 0: no image comes back."""
    generator = drawn(seed)
    before, place = generator.random(n) < 0.8, generator.integers(0, 8, n)
    return before[:, None] & (np.arange(5)[None, :] < place[:, None]), before


def test_bisection_says_of_ordered_images_what_the_full_grid_says() -> None:
    right, before = monotone(200, 1)
    some, every = answers_of(right, before, np.arange(200) < 20), answers_of(right, before, np.ones(200))
    for at in range(5):
        assert some.accuracy(at, drawn()) == every.accuracy(at, drawn())
        assert some.failed(at, drawn()) == every.failed(at, drawn())
        assert some.loss(at, drawn()) == every.loss(at, drawn())
        assert every.accuracy(at, drawn()).estimate == pytest.approx(right[:, at].mean())
    assert some.failing().tolist() == every.failing().tolist()
    assert monotonicity(some).violated == 0


def test_what_the_order_gets_wrong_is_added_with_its_own_uncertainty() -> None:
    right, before = monotone(400, 2)
    # An image in twenty is right at the last level whatever it was.
    right = right.copy()
    right[drawn(9).random(400) < 0.05, 4] = True
    full = np.arange(400) % 10 == 0
    some, every = answers_of(right, before, full), answers_of(right, before, np.ones(400))
    told, truth = some.accuracy(4, drawn()), every.accuracy(4, drawn())
    assert (told.low or 0.0) < right[:, 4].mean() < (told.high or 0.0)
    assert (told.high or 0.0) - (told.low or 0.0) > (truth.high or 0.0) - (truth.low or 0.0)
    assert some.accuracy(0, drawn()) == every.accuracy(0, drawn())
    assert some.pseudo_values()[:, 5].mean() == pytest.approx(told.estimate)
    loss = some.loss(4, drawn())
    assert loss.estimate == pytest.approx(before.mean() - (told.estimate or 0.0))
    assert (loss.low or 0.0) < before.mean() - right[:, 4].mean() < (loss.high or 0.0)


def test_frames_of_one_photograph_count_once() -> None:
    right, before = monotone(60, 3)
    groups = np.repeat(np.arange(60), 5)
    alone = answers_of(right, before, np.ones(60))
    frames = answers_of(np.repeat(right, 5, axis=0), np.repeat(before, 5), np.ones(300), groups)
    one, many = alone.loss(2, drawn()), frames.loss(2, drawn())
    assert (one.n, many.n) == (60, 60)
    assert many.estimate == pytest.approx(one.estimate)
    assert frames.accuracy(2, drawn()).n == 60
    assert len(frames.pseudo_values()) == 60


def test_the_order_is_doubted_where_several_images_come_back() -> None:
    right, before = monotone(100, 4)
    full = np.arange(100) < 20
    turned = right.copy()
    turned[:3] = [False, True, True, True, True]
    assert not monotonicity(answers_of(right, before, full)).is_rejected
    found = monotonicity(answers_of(turned, np.ones(100), full))
    assert (found.n, found.violated, found.is_rejected) == (20, 3, True)
    assert monotonicity(answers_of(right, before, np.zeros(100))).p == 1.0


def test_all_images_wrong_at_level_0_have_no_failure_points() -> None:
    found = answers_of(np.zeros((12, 5)), np.zeros(12), np.arange(12) < 4)
    assert found.failed(4, drawn()) == Estimate(estimate=None, low=None, high=None, n=0)
    assert found.failing().tolist() == [0] * 6
    assert found.accuracy(4, drawn()).estimate == 0.0


def test_an_image_counts_once_it_has_what_its_draw_asks_for() -> None:
    assert is_decided(LEVELS, before=True, right={3: True, 5: True}, full=False)
    assert not is_decided(LEVELS, before=True, right={3: True, 5: True}, full=True)
    assert not is_decided(LEVELS, before=True, right={3: True}, full=False)
    assert is_decided(LEVELS, before=False, right={}, full=False)


def estimate(value: float, half: float = 0.05) -> Estimate:
    return Estimate(estimate=value, low=value - half, high=value + half, n=100)


def test_the_level_of_a_loss_lies_between_levels_by_straight_lines() -> None:
    found = loss_level((1, 2, 4), [estimate(0.0), estimate(0.2), estimate(0.4)], 0.1)
    assert found.level == pytest.approx(1.5)
    assert found.low == pytest.approx(1.25)
    assert found.high == pytest.approx(1.75)


def test_a_loss_that_is_not_reached_has_no_level_and_may_have_one_end() -> None:
    found = loss_level((1, 3), [estimate(0.0), estimate(0.07)], 0.1)
    assert (found.level, found.high) == (None, None)
    assert found.low == pytest.approx(1 + 2 * 0.05 / 0.07)
    assert loss_level((1,), [estimate(0.0)], 0.1).low is None


def test_a_loss_that_comes_and_goes_is_not_shown_to_be_reached() -> None:
    found = loss_level((1, 2, 3), [estimate(0.3), estimate(0.0), estimate(0.3)], 0.1)
    assert (found.level or 9.0) < 1.0
    assert (found.high or 0.0) > 2.0


def test_a_claim_is_made_of_the_easiest_level_that_the_other_half_would_show() -> None:
    losses = {1: [0.0] * 40, 2: [1.0] * 4 + [0.0] * 36, 3: [1.0] * 20 + [0.0] * 20}
    # Four of forty are ten points, and too few for another half to show over six tests.
    assert claimed_level((1, 2, 3), losses, 0.1, 6) == 3
    assert claimed_level((1, 2, 3), losses, 0.6, 6) == 3
    assert claimed_level((1, 2), {1: [1.0, 0.0], 2: [0.0, 0.0]}, 0.1, 6) == 1
    assert claimed_level((1, 2), {1: [0.0], 2: [0.0]}, 0.1, 6) == 2
    assert claimed_level((1, 2), {1: [], 2: []}, 0.1, 6) == 2


def test_a_tenth_gets_every_level_and_half_is_kept_for_tests() -> None:
    assert [full_share(n) for n in (10_000, 200, 50, 8, 0)] == [0.1, 0.1, 0.2, 0.5, 0.5]
    shares = [share_of(drawn(seed), 0.1) for seed in range(2000)]
    assert 150 < shares.count("full") < 250
    assert 900 < shares.count("tested") < 1100


@pytest.mark.parametrize("n", [60, 300])
def test_intervals_of_an_adaptive_run_cover_the_truth(n: int) -> None:
    # A smoke test of a few dozen runs: `evaluation.transforms.severity` has 2,000 of each population.
    truth = np.array([0.8 * (1 - (at + 1) / 8) for at in range(5)])
    covered = np.zeros(5)
    for seed in range(60):
        right, before = monotone(n, 1000 + seed)
        found = answers_of(right, before, drawn(seed).random(n) < 0.1)
        for at in range(5):
            told = found.accuracy(at, drawn(seed))
            covered[at] += (told.low or 0.0) <= truth[at] <= (told.high or 0.0)
    assert covered.min() >= 52
