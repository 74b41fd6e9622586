"""What can be proven, before a run: against sign flips that are drawn, and at the limits."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.statistics.p_values import sign_flip_p
from counterpose_core.stress_test.provable import POWER, provable_hypotheses, provable_share
from counterpose_core.stress_test.screening import LEVEL, least_pairs


@pytest.mark.parametrize(("pairs", "hypotheses"), [(8, 4), (10, 8), (14, 1)])
def test_the_share_is_proven_as_often_as_is_told(pairs: int, hypotheses: int) -> None:
    share = provable_share(pairs, hypotheses)
    assert share is not None
    generator = np.random.default_rng(0)
    fooled = generator.random((2000, pairs)) < share
    proven = [sign_flip_p(row.astype(float), generator) <= LEVEL / hypotheses for row in fooled]
    assert np.mean(proven) == pytest.approx(POWER, abs=0.03)


@pytest.mark.parametrize("hypotheses", [1, 4, 12])
def test_too_few_pairs_prove_nothing_and_just_enough_only_what_fools_nearly_all(hypotheses: int) -> None:
    needed = least_pairs(hypotheses)
    assert provable_share(needed - 1, hypotheses) is None
    assert provable_share(needed, hypotheses) == pytest.approx(POWER ** (1 / needed))


def test_more_pairs_prove_smaller_losses_and_more_hypotheses_only_larger_ones() -> None:
    shares = [provable_share(pairs, 4) or 1.0 for pairs in (8, 12, 25)]
    assert shares == sorted(shares, reverse=True)
    assert (provable_share(12, 12) or 1.0) > (provable_share(12, 1) or 1.0)


@pytest.mark.parametrize(
    ("pairs", "most", "expected"), [([], 12, 1), ([4], 12, 1), ([3, 7], 12, 6), ([25], 12, 12), ([7], 4, 4)]
)
def test_only_as_many_changes_are_tested_as_the_largest_class_can_prove(
    pairs: list[int], most: int, expected: int
) -> None:
    assert provable_hypotheses(pairs, most) == expected
