"""Clusters of failures by answers and features."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.bug_hunt.clusters import cluster_failures


def around(direction: int, n: int, spread: float, seed: int) -> np.ndarray:
    """Features (n, 8) around one axis."""
    generator = np.random.default_rng(seed)
    return np.asarray(np.eye(8)[direction] + spread * generator.standard_normal((n, 8)))


REFERENCE = np.concatenate([around(axis, 4, 0.1, axis) for axis in range(4)])
"""Images of a label in four circumstances."""


@pytest.mark.paper("BUGS-S3-cluster-feature")
def test_failures_of_one_answer_are_split_by_their_features() -> None:
    features = np.concatenate([around(0, 5, 0.1, 10), around(1, 9, 0.1, 11)])
    assert cluster_failures(["bee"] * 14, features, REFERENCE) == [1] * 5 + [0] * 9


@pytest.mark.paper("BUGS-S3-cluster-label")
def test_failures_of_different_answers_are_apart_however_alike() -> None:
    features = around(0, 10, 0.1, 12)
    assert cluster_failures(["bee", "bus"] * 4 + ["bee"] * 2, features, REFERENCE) == [0, 1] * 4 + [0] * 2


def test_failures_of_one_cause_are_one_cluster() -> None:
    assert set(cluster_failures(["bee"] * 20, around(2, 20, 0.2, 13), REFERENCE)) == {0}


def test_few_successes_say_nothing_of_distances() -> None:
    features = np.concatenate([around(0, 5, 0.1, 14), around(1, 5, 0.1, 15)])
    assert set(cluster_failures(["bee"] * 10, features, REFERENCE[:7])) == {0}
    assert cluster_failures([], np.zeros((0, 8)), REFERENCE) == []
    assert cluster_failures(["bee"], features[:1], REFERENCE) == [0]


def test_equal_images_are_one_cluster() -> None:
    features = np.repeat(around(0, 1, 0.1, 16), 6, axis=0)
    assert set(cluster_failures(["bee"] * 6, features, REFERENCE)) == {0}
