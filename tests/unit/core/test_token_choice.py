"""How much of what was learned is kept: nothing without a reason, everything where it shows."""

from __future__ import annotations

import numpy as np

from faultline_core.token_choice import least_share


def test_of_equals_the_smallest_share_is_kept() -> None:
    assert least_share([0.0, 0.5, 1.0], [[0.2, 0.3], [0.2, 0.3], [0.2, 0.3]]) == 0
    # In whatever order they are told.
    assert least_share([1.0, 0.0], [[0.2, 0.3], [0.2, 0.3]]) == 1


def test_what_is_better_beyond_its_error_is_kept() -> None:
    better = [[0.1, 0.2, 0.3], [0.31, 0.4, 0.49]]
    assert least_share([0.0, 1.0], better) == 1


def test_what_is_better_by_less_than_its_error_is_not() -> None:
    # Better by 0.1 on average, in single pictures by 0.5 and worse by 0.3.
    assert least_share([0.0, 1.0], [[0.2, 0.6, 0.4], [0.7, 0.3, 0.5]]) == 0


def test_the_error_is_that_of_pairs() -> None:
    # Pictures differ by far more than the shares do, which differ by the same in each.
    spread = np.linspace(-0.5, 0.5, 12)
    assert least_share([0.0, 1.0], [spread, spread + 0.01]) == 1


def test_of_one_picture_only_equals_are_as_good() -> None:
    assert least_share([0.0, 1.0], [[0.2], [0.21]]) == 1
    assert least_share([0.0, 1.0], [[0.2], [0.2]]) == 0
