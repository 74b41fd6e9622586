"""Selection of the interpolation weight: the smallest within one standard error of the best."""

from __future__ import annotations

import numpy as np

from counterpose_core.shift_benchmark.token_selection import least_weight


def test_ties_keep_the_smallest_weight() -> None:
    assert least_weight([0.0, 0.5, 1.0], [[0.2, 0.3], [0.2, 0.3], [0.2, 0.3]]) == 0
    # In whatever order they are told.
    assert least_weight([1.0, 0.0], [[0.2, 0.3], [0.2, 0.3]]) == 1


def test_differences_within_rounding_are_ties() -> None:
    for count in (1, 4):
        assert least_weight([0.0, 1.0], [[0.2] * count, [0.2 + 1e-7] * count]) == 0
        assert least_weight([0.0, 1.0], [[0.2] * count, [0.2 + 1e-3] * count]) == 1


def test_a_weight_better_by_more_than_its_standard_error_is_kept() -> None:
    better = [[0.1, 0.2, 0.3], [0.31, 0.4, 0.49]]
    assert least_weight([0.0, 1.0], better) == 1


def test_a_weight_better_by_less_than_its_standard_error_is_not_kept() -> None:
    # Better by 0.1 on average, in single images by 0.5 and worse by 0.3.
    assert least_weight([0.0, 1.0], [[0.2, 0.6, 0.4], [0.7, 0.3, 0.5]]) == 0


def test_the_standard_error_is_paired() -> None:
    # Images differ by far more than the weights do, which differ by the same in each.
    spread = np.linspace(-0.5, 0.5, 12)
    assert least_weight([0.0, 1.0], [spread, spread + 0.01]) == 1


def test_with_one_image_only_equal_weights_tie() -> None:
    assert least_weight([0.0, 1.0], [[0.2], [0.21]]) == 1
    assert least_weight([0.0, 1.0], [[0.2], [0.2]]) == 0
