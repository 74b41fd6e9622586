"""Pairs of near-duplicates match a brute-force search, and chains of pairs are one group."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from counterpose_core.errors import NumericalFailure
from counterpose_core.images import near_duplicates
from counterpose_core.images.clip_metrics import cosine
from counterpose_core.images.near_duplicates import joined, near_pairs


def test_pairs_are_those_of_a_brute_force_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_duplicates, "_BLOCK", 4)
    features = np.random.default_rng(0).normal(size=(11, 3))
    expected = [
        (one, other)
        for one, other in combinations(range(11), 2)
        if cosine(features[one], features[other]) >= 0.8
    ]
    assert len(expected) > 3
    assert near_pairs(features, 0.8) == expected


def test_a_chain_is_one_group_and_the_others_stand_alone() -> None:
    numbers = joined(6, [(0, 2), (2, 5), (3, 4)])
    assert numbers[0] == numbers[2] == numbers[5] != numbers[3] == numbers[4]
    assert len(set(numbers)) == 3
    assert len(set(joined(3, []))) == 3


def test_features_of_nothing_are_refused() -> None:
    with pytest.raises(NumericalFailure):
        near_pairs([[1.0, 0.0], [0.0, 0.0]], 0.9)
