"""Clusters of a run's kept edits by the recorded features of their words (LANCE, section 4.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from faultline_core.clusters import cluster_edits
from faultline_core.contract.features import FeatureVector, WordFeatures
from faultline_core.insights import LEAST_SOURCES, Cluster, Pattern
from faultline_core.statistics import Floats
from faultline_gateway.workflows.estimates import Estimator
from faultline_gateway.workflows.evidence import Evidence, Shot, changed_words
from faultline_gateway.workflows.records import CLIP

Words = tuple[str, str]
"""The removed and the added words of an edit."""


def edit_clusters(seen: Sequence[Evidence], estimator: Estimator) -> list[Cluster]:
    """K-means over the distinct changes of words of each class and edit type, each change weighing 1.

    What an edit did to a classifier has no part in it. Only clusters of several changes are told: one
    of a single change is the group of its exact words, and one that holds all changes that of its
    type. Edits without recorded features belong to none.
    """
    edits = {shot.item.id: shot for each in seen for shot in each.edits if _features(shot)}
    found: list[Cluster] = []
    for (object_class, edit_type), shots in sorted(_cells(_of_one_kind(edits.values())).items()):
        if len({shot.source for shot in shots}) >= LEAST_SOURCES:
            figure = f"clusters/{object_class}/{edit_type}"
            found += _clusters(shots, estimator.generator(figure))
    return found


def _of_one_kind(shots: Iterable[Shot]) -> list[Shot]:
    """Those whose features have the weights and the width that most have: others do not compare."""
    kinds = {shot.item.id: (shot, _kind(shot)) for shot in shots}
    counts = Counter(kind for _, kind in kinds.values())
    most = max(sorted(counts), key=counts.__getitem__, default=None)
    return [shot for shot, kind in kinds.values() if kind == most]


def _kind(shot: Shot) -> tuple[str, int]:
    return shot.result.models.get(CLIP, ""), max(vector.width for vector in _features(shot))


def _features(shot: Shot) -> list[FeatureVector]:
    words = shot.result.word_features or WordFeatures()
    return [vector for vector in (words.removed, words.added) if vector is not None]


def _cells(shots: Iterable[Shot]) -> Mapping[tuple[str, str], list[Shot]]:
    cells: dict[tuple[str, str], list[Shot]] = {}
    for shot in shots:
        if shot.item.edit_type is not None:
            cells.setdefault((shot.item.label, shot.item.edit_type), []).append(shot)
    return cells


def _clusters(shots: Sequence[Shot], generator: np.random.Generator) -> list[Cluster]:
    changes: dict[Words, list[Shot]] = {}
    for shot in shots:
        changes.setdefault(changed_words(shot.result), []).append(shot)
    # By their words: the order in which items were done moves no cluster.
    told = sorted(changes)
    removed, added = np.stack([_mean_features(changes[words]) for words in told], axis=1)
    clustering = cluster_edits(removed, added, generator)
    if len(clustering.names) == 1:
        return []
    members = [clustering.members(cluster) for cluster in range(len(clustering.names))]
    return [
        _cluster(told[name], [changes[told[index]] for index in indices])
        for name, indices in zip(clustering.names, members, strict=True)
        if len(indices) > 1
    ]


def _cluster(named: Words, changes: Sequence[Sequence[Shot]]) -> Cluster:
    item = changes[0][0].item
    assert item.edit_type is not None  # cells are of one edit type
    return Cluster(
        Pattern(item.label, item.edit_type, *named, changes=len(changes)),
        frozenset(shot.item.id for shots in changes for shot in shots),
    )


def _mean_features(shots: Sequence[Shot]) -> Floats:
    """Features (2, d) of the removed and of the added words, zeros where there are none.

    Changes of several places may read alike and differ by a word in between; they count as one.
    """
    rows = []
    for shot in shots:
        words, width = shot.result.word_features or WordFeatures(), _kind(shot)[1]
        sides = (words.removed, words.added)
        rows.append([[0.0] * width if vector is None else vector.numbers() for vector in sides])
    return np.asarray(np.mean(rows, axis=0))
