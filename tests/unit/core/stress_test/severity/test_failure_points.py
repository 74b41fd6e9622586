"""Bisection of failure points: right at every point, in few questions, open while levels are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from counterpose_core.stress_test.severity.failure_points import failure_place, next_level


def bisected(levels: Sequence[int], place: int) -> tuple[int | None, int]:
    """The place that is found of an image that fails at a place, and the questions that it took."""
    right: dict[int, bool] = {}
    while (level := next_level(levels, right)) is not None:
        assert level not in right
        right[level] = levels.index(level) < place
    return failure_place(levels, right), len(right)


@pytest.mark.parametrize("levels", [[1], [3], [1, 5], [2, 3, 5], [1, 2, 4, 5], [1, 2, 3, 4, 5]])
def test_every_failure_point_is_found_in_as_few_questions_as_a_tree_can_have(levels: list[int]) -> None:
    answers = [bisected(levels, place) for place in range(len(levels) + 1)]
    assert [found for found, _ in answers] == list(range(len(levels) + 1))
    assert max(questions for _, questions in answers) == len(levels).bit_length()


def test_an_image_that_never_fails_takes_two_questions_of_five() -> None:
    assert [bisected([1, 2, 3, 4, 5], place)[1] for place in range(6)] == [2, 3, 3, 3, 3, 2]


def test_a_point_is_open_until_the_levels_around_it_are_answered() -> None:
    levels = [1, 2, 3, 4, 5]
    assert failure_place(levels, {}) is None
    assert failure_place(levels, {3: True, 5: False}) is None
    assert failure_place(levels, {3: True, 5: False, 4: True}) == 4
    # Levels that the tree does not ask say nothing.
    assert failure_place(levels, {1: True, 2: True}) is None
