"""Shares of a budget, and which descriptions get further images."""

from __future__ import annotations

import pytest

from counterpose_core.bug_hunt.budget import (
    LEAST_BASELINE,
    LEAST_ROUND,
    ROUNDS,
    Standing,
    findable_rate,
    promising,
    round_size,
    share,
)
from counterpose_core.bug_hunt.comparison import FailureCounts
from counterpose_core.errors import InvalidRequest

BASELINE = FailureCounts(10, 200)


def standing(number: int, failures: int, images: int = 40, words: str = "") -> Standing:
    return Standing(number, FailureCounts(failures, images), BASELINE, frozenset(words.split()))


@pytest.mark.parametrize("labels", [1, 3])
@pytest.mark.parametrize("hypotheses", [1, 8])
@pytest.mark.parametrize("extra", [0, 1, 500])
def test_shares_never_exceed_the_budget_and_leave_enough_of_each(
    labels: int, hypotheses: int, extra: int
) -> None:
    held_out, winners = 24, 2
    won = min(winners, hypotheses)
    least = held_out * (1 + won) + LEAST_BASELINE + LEAST_ROUND * hypotheses
    found = share(labels * (least + extra), labels, hypotheses=hypotheses, winners=winners, held_out=held_out)
    spent = found.baseline + found.hypotheses + found.held_out * (1 + won)
    assert spent == least + extra
    assert found.baseline >= LEAST_BASELINE
    assert found.hypotheses >= LEAST_ROUND * hypotheses


@pytest.mark.parametrize(
    ("images", "held_out", "size", "reserved"),
    [(3000, 96, 32, 448), (1800, 96, 24, 336), (640, 32, 16, 136), (640, 64, 16, 112), (480, 64, 0, 0)],
)
def test_shorter_forms_get_a_quarter_of_the_budget_at_most_where_a_hunt_decides(
    images: int, held_out: int, size: int, reserved: int
) -> None:
    found = share(images, 1, hypotheses=8, winners=2, held_out=held_out, refine=None)
    assert (found.refine, found.refinement) == (size, reserved)
    assert found.baseline + found.hypotheses + 3 * held_out + reserved == images


def test_no_budget_is_too_small_because_a_hunt_would_refine() -> None:
    least = 24 * 3 + LEAST_BASELINE + LEAST_ROUND * 8
    for images in range(least, least + 800, 7):
        found = share(images, 1, hypotheses=8, winners=2, held_out=24, refine=None)
        assert found.baseline >= LEAST_BASELINE
        assert found.hypotheses >= LEAST_ROUND * 8


def test_a_budget_that_is_too_small_names_the_least() -> None:
    with pytest.raises(InvalidRequest, match="each needs 128, of which 32 are held out; allow 256") as caught:
        share(255, 2, hypotheses=8, winners=1, held_out=16)
    assert caught.value.pointer == "/budget/images"


@pytest.mark.parametrize("images", [2, 32, 500])
def test_the_findable_rate_shows_two_failures_in_four_of_five_baselines(images: int) -> None:
    rate = findable_rate(images)
    assert rate is not None
    assert 1 - (1 - rate) ** images - images * rate * (1 - rate) ** (images - 1) == pytest.approx(0.8)
    assert findable_rate(1) is None


def test_descriptions_that_fail_no_more_often_than_the_baseline_are_hopeless() -> None:
    assert [standing(1, failures).is_hopeless for failures in (0, 2, 3)] == [True, True, False]
    assert standing(1, 0, 0).is_hopeless


def test_the_best_come_first_and_ties_by_number() -> None:
    found = [standing(1, 5), standing(2, 20), standing(3, 5), standing(4, 1)]
    assert promising(found, 10) == [2, 1, 3]
    assert promising(found, 2) == [2, 1]


def test_a_description_that_only_adds_words_without_failing_more_is_left_out() -> None:
    general, narrow = standing(1, 20, words="snow"), standing(2, 24, words="snow dog")
    assert promising([narrow, general], 5) == [1]


@pytest.mark.parametrize(
    ("general", "narrow"),
    [
        # It fails much more often: the added words matter.
        (standing(1, 8, words="snow"), standing(2, 36, words="snow dog")),
        # The general one is not shown to fail more often than the baseline.
        (standing(1, 3, words="snow"), standing(2, 6, words="snow dog")),
        # Neither says all that the other does.
        (standing(1, 20, words="snow"), standing(2, 24, words="fog dog")),
    ],
)
def test_other_descriptions_are_kept_beside_each_other(general: Standing, narrow: Standing) -> None:
    assert sorted(promising([general, narrow], 5)) == [1, 2]


def test_rounds_halve_what_is_left_and_stop_where_too_few_images_are_left() -> None:
    assert round_size(240, 8, ROUNDS) == 10
    assert round_size(64, 8, ROUNDS) == LEAST_ROUND
    assert round_size(63, 8, ROUNDS) == 0
    assert round_size(100, 0, ROUNDS) == 0
    assert round_size(100, 4, 0) == 0
