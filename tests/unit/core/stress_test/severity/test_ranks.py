"""Ranks by level, and mean corruption errors: what is shown, what is open, and AlexNet's own."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.statistics.bootstrap import Floats
from counterpose_core.stress_test.severity.mean_error import (
    ALEXNET,
    ALEXNET_CLEAN,
    corruption_errors,
    is_grid_of_imagenet_c,
    relative_corruption_errors,
)
from counterpose_core.stress_test.severity.ranks import LEAST_GROUPS, Rank, ranks_by_level

GROUPS = 200


def right(*shares: float, seed: int = 0) -> Floats:
    """Of two hundred images, those that are right at each level, by the share of them (groups, k)."""
    drawn = np.random.default_rng(seed).random(GROUPS)
    return np.array([drawn < share for share in shares], dtype=np.float64).T


def ranked(**values: Floats) -> tuple[list[dict[str, Rank]], list[tuple[str, str, int]]]:
    return ranks_by_level(values, np.random.default_rng(1))


def test_an_order_that_turns_round_is_shown_with_its_level() -> None:
    ranks, changes = ranked(early=right(0.9, 0.9, 0.3), late=right(0.5, 0.5, 0.5, seed=1))
    assert [told["early"].rank for told in ranks] == [1, 1, 2]
    assert vars(ranks[0]["early"]) == {"rank": 1, "low": 1, "high": 1}
    assert changes == [("early", "late", 2)]


def test_classifiers_that_are_alike_may_have_any_rank() -> None:
    ranks, changes = ranked(one=right(0.8, 0.7), other=right(0.8, 0.7, seed=1), worse=right(0.2, 0.1, seed=2))
    assert {(told["one"].low, told["one"].high) for told in ranks} == {(1, 2)}
    assert {(told["worse"].low, told["worse"].high) for told in ranks} == {(3, 3)}
    assert changes == []


def test_equal_answers_share_a_rank_and_few_images_show_nothing() -> None:
    same = right(0.8, 0.6)
    ranks, _ = ranked(one=same, other=same.copy())
    assert [vars(told["one"]) for told in ranks] == [{"rank": 1, "low": 1, "high": 2}] * 2
    few = LEAST_GROUPS - 1
    ranks, _ = ranked(one=np.ones((few, 2)), other=np.zeros((few, 2)))
    assert {(told["other"].low, told["other"].high) for told in ranks} == {(1, 2)}


def test_images_that_all_differ_alike_show_an_order() -> None:
    ranks, _ = ranked(one=np.ones((30, 2)), other=np.zeros((30, 2)))
    assert vars(ranks[0]["other"]) == {"rank": 2, "low": 2, "high": 2}


def test_one_classifier_has_the_first_rank_alone() -> None:
    ranks, changes = ranked(one=right(0.5, 0.4))
    assert [vars(told["one"]) for told in ranks] == [{"rank": 1, "low": 1, "high": 1}] * 2
    assert changes == []


def test_alexnet_s_published_errors_have_a_mean_corruption_error_of_one() -> None:
    errors = np.array([list(ALEXNET.values())])
    assert corruption_errors(errors, list(ALEXNET)) == pytest.approx([1.0])
    clean = np.array([ALEXNET_CLEAN])
    assert relative_corruption_errors(errors, clean, list(ALEXNET)) == pytest.approx([1.0])
    # In another order of the corruptions, the same.
    names = list(ALEXNET)[::-1]
    assert corruption_errors(np.array([[ALEXNET[name] for name in names]]), names) == pytest.approx([1.0])


def test_the_mean_corruption_error_takes_its_corruptions_at_their_levels_and_no_others() -> None:
    grid = dict.fromkeys(ALEXNET, (1, 2, 3, 4, 5))
    assert is_grid_of_imagenet_c(grid)
    assert not is_grid_of_imagenet_c(grid | {"fog": (1, 3, 5)})
    assert not is_grid_of_imagenet_c(grid | {"rotation": (1, 2, 3, 4, 5)})
    assert not is_grid_of_imagenet_c({name: levels for name, levels in grid.items() if name != "snow"})
