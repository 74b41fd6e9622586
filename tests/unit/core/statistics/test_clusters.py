"""Clusters of edits by the features of their words."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.statistics.bootstrap import Floats
from counterpose_core.statistics.clusters import cluster_edits


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def changes(kinds: int, each: int, spread: float = 0.05) -> tuple[Floats, Floats]:
    """``each`` edits of every kind; kind j moves the words along axis j."""
    removed = np.zeros((kinds * each, kinds))
    added = np.repeat(np.eye(kinds), each, axis=0) + generator(1).normal(0.0, spread, (kinds * each, kinds))
    return removed, added


@pytest.mark.paper("LANCE-S4.2-l1-kmeans", "LANCE-T6-clustering")
def test_similar_word_changes_form_one_cluster() -> None:
    found = cluster_edits(*changes(3, 4), generator(), clusters=3)
    groups = {tuple(found.members(cluster)) for cluster in range(3)}
    assert groups == {(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)}


def test_a_cluster_is_named_after_its_most_central_edit() -> None:
    added = np.array([[1.0], [1.1], [1.5], [9.0], [9.2], [9.1]])
    found = cluster_edits(np.zeros((6, 1)), added, generator(), clusters=2)
    assert sorted(found.names) == [1, 5]
    assert all(found.labels[name] == cluster for cluster, name in enumerate(found.names))


def test_the_reverse_change_is_a_different_change() -> None:
    removed = np.array([[1.0, 0.0], [0.0, 1.0], [1.1, 0.0], [0.0, 1.1]])
    added = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.1], [1.1, 0.0]])
    found = cluster_edits(removed, added, generator(), clusters=2)
    assert found.labels[0] == found.labels[2] != found.labels[1] == found.labels[3]


@pytest.mark.paper("LANCE-T6-clusters")
@pytest.mark.parametrize(("edits", "expected"), [(1, 1), (3, 3), (8, 5)])
def test_there_are_at_most_five_clusters(edits: int, expected: int) -> None:
    added = np.arange(float(edits))[:, None]
    twice = np.concatenate([added, added])
    found = cluster_edits(np.zeros_like(twice), twice, generator())
    assert len(found.names) == expected == len(set(found.labels))


def test_no_edits_give_no_clusters() -> None:
    found = cluster_edits(np.zeros((0, 4)), np.zeros((0, 4)), generator())
    assert found.labels == found.names == ()


def test_the_same_generator_gives_the_same_clusters() -> None:
    removed, added = changes(6, 5, spread=0.8)
    assert cluster_edits(removed, added, generator(3)) == cluster_edits(removed, added, generator(3))


def test_a_cluster_is_named_after_one_of_its_members() -> None:
    """A stray edit of a tight cluster may lie nearer to the centre of a wide one than any of that one's."""
    wide = 10.0 * np.concatenate([np.eye(5), -np.eye(5)])
    wide = np.concatenate([np.zeros((10, 1)), wide], axis=1)
    tight = np.zeros((31, 6))
    tight[:, 0] = [5.6, *[11.0] * 30]
    added = np.concatenate([wide, tight])
    found = cluster_edits(np.zeros_like(added), added, generator(), clusters=2)
    assert sorted(len(found.members(cluster)) for cluster in range(2)) == [10, 31]
    assert all(found.labels[name] == cluster for cluster, name in enumerate(found.names))
