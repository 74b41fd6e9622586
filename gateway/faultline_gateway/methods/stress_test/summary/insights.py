"""Changes of words that hurt a classifier on a class, alone and in clusters (LANCE, section 4.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from faultline_core.contract.features import FeatureVector, WordFeatures
from faultline_core.contract.stress_tests import Insight
from faultline_core.statistics.bootstrap import Floats
from faultline_core.statistics.clusters import cluster_edits
from faultline_core.stress_test.insights import (
    LEAST_SOURCES,
    Cluster,
    Group,
    Pattern,
    group_by_words,
    rank_insights,
)
from faultline_gateway.methods.stress_test.features import CLIP
from faultline_gateway.methods.stress_test.summary.estimates import LanceEstimator
from faultline_gateway.methods.stress_test.summary.evidence import Evidence, Shot, changed_words
from faultline_gateway.methods.stress_test.summary.hypotheses import CHANGES, Hypotheses
from faultline_gateway.methods.stress_test.summary.sentences import insight_sentence

MOST_HINTS = 50


def find_insights(seen: Sequence[Evidence], estimator: LanceEstimator) -> list[Insight]:
    """List every finding, and the strongest hints, each part worst first over all classifiers."""
    clusters = find_edit_clusters(seen, estimator)
    groups = {
        evidence.classifier: {
            _figure(evidence.classifier, group): group for group in group_by_words(evidence.effects, clusters)
        }
        for evidence in seen
    }
    contrasts = {
        figure: evidence.contrast([evidence.by_item[effect.item] for effect in group.effects])
        for evidence in seen
        for figure, group in groups[evidence.classifier].items()
    }
    hypotheses = Hypotheses(CHANGES, contrasts, estimator)
    insights = [
        insight
        for classifier, found in groups.items()
        for insight in _of_classifier(classifier, found, hypotheses, estimator)
    ]
    findings = [insight for insight in insights if insight.significant]
    hints = [insight for insight in insights if not insight.significant]
    return [*_worst_first(findings), *_worst_first(hints)[:MOST_HINTS]]


def _worst_first(insights: Sequence[Insight]) -> list[Insight]:
    return sorted(insights, key=lambda insight: insight.delta_p.estimate or 0.0)


def _of_classifier(
    classifier: str,
    groups: Mapping[str, Group],
    hypotheses: Hypotheses,
    estimator: LanceEstimator,
) -> list[Insight]:
    significant = {groups[figure].pattern for figure in hypotheses.found if figure in groups}
    ranked = rank_insights(groups.values(), significant)
    hints = [group for group in ranked if group.pattern not in significant]
    chosen = [*(group for group in ranked if group.pattern in significant), *hints[:MOST_HINTS]]
    return [_insight(classifier, group, hypotheses, estimator) for group in chosen]


def _figure(classifier: str, group: Group) -> str:
    pattern = group.pattern
    words = [classifier, pattern.object_class, pattern.edit_type, pattern.removed, pattern.added]
    alike = [f"and {pattern.changes - 1} like it"] if pattern.changes > 1 else []
    return "insight/" + "/".join([*words, *alike])


def _insight(
    classifier: str,
    group: Group,
    hypotheses: Hypotheses,
    estimator: LanceEstimator,
) -> Insight:
    figure = _figure(classifier, group)
    delta_p = estimator.mean(figure, ((effect.source, effect.delta_p) for effect in group.effects))
    tested = hypotheses.tested(figure, delta_p)
    return Insight(
        **dict(tested),
        classifier=classifier,
        object_class=group.pattern.object_class,
        edit_type=group.pattern.edit_type,
        removed=group.spoken.removed,
        added=group.spoken.added,
        delta_p=delta_p,
        example_item=group.worst.item,
        sentence=insight_sentence(classifier, group.spoken, delta_p, tested),
        n_sources=len({effect.source for effect in group.effects}),
        n_images=len(group.effects),
        cluster_size=group.pattern.changes,
        cluster_items=[effect.item for effect in group.effects] if group.pattern.changes > 1 else [],
    )


Words = tuple[str, str]
"""The removed and the added words of an edit."""


def find_edit_clusters(seen: Sequence[Evidence], estimator: LanceEstimator) -> list[Cluster]:
    """K-means over the distinct changes of words of each class and edit type, each change with weight 1.

    The effects of edits on classifiers play no part. Only clusters of several changes are returned: a
    cluster of one change is the group of its exact words, and a cluster of all changes is the group of
    its type. Edits without recorded features belong to no cluster.
    """
    edits = {shot.item.id: shot for evidence in seen for shot in evidence.edits if _features(shot)}
    clusters: list[Cluster] = []
    for (object_class, edit_type), shots in sorted(_cells(_of_one_kind(edits.values())).items()):
        if len({shot.unit for shot in shots}) >= LEAST_SOURCES:
            figure = f"clusters/{object_class}/{edit_type}"
            clusters += _clusters(shots, estimator.generator(figure))
    return clusters


def _of_one_kind(shots: Iterable[Shot]) -> list[Shot]:
    """The shots with the most common feature weights and width; others cannot be compared with them."""
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
    # Sorted by words, so that the order in which items finish does not change clusters.
    ordered = sorted(changes)
    removed, added = np.stack([_mean_features(changes[words]) for words in ordered], axis=1)
    clustering = cluster_edits(removed, added, generator)
    if len(clustering.names) == 1:
        return []
    members = [clustering.members(cluster) for cluster in range(len(clustering.names))]
    return [
        _cluster(ordered[name], [changes[ordered[index]] for index in indices])
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
    """Features (2, d) of the removed and of the added words, zeros without such words.

    Changes at several positions may have equal words and differ in the words between; they count as one.
    """
    rows = []
    for shot in shots:
        words, width = shot.result.word_features or WordFeatures(), _kind(shot)[1]
        sides = (words.removed, words.added)
        rows.append([[0.0] * width if vector is None else vector.numbers() for vector in sides])
    return np.asarray(np.mean(rows, axis=0))
