"""Changes of words that hurt a classifier on a class, alone and in clusters (LANCE, section 4.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from counterpose_core.contract.stress_test_figures import Tested
from counterpose_core.contract.stress_tests import Insight
from counterpose_core.contract.tasks import TaskFigures
from counterpose_core.statistics.clusters import cluster_edits
from counterpose_core.statistics.coded import Ints, in_order
from counterpose_core.stress_test.insights import (
    LEAST_SOURCES,
    Cluster,
    Group,
    Pattern,
    group_by_words,
    rank_insights,
)
from counterpose_core.types import EditType, Estimate
from counterpose_gateway.methods.stress_test.columns import ItemColumns
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.evidence import Evidence
from counterpose_gateway.methods.stress_test.summary.hypotheses import CHANGES, Hypotheses
from counterpose_gateway.methods.stress_test.summary.sentences import insight_sentence
from counterpose_gateway.summaries.columns import NONE

MOST_HINTS = 50
MOST_LISTED = 1000
"""Items of a cluster that a summary lists."""


def find_insights(seen: Sequence[Evidence], estimator: LanceEstimator, figures: TaskFigures) -> list[Insight]:
    """List every finding, and the strongest hints, each part worst first over all classifiers.

    ``figures``: what those of the run's task are called.
    """
    clusters = find_edit_clusters(seen, estimator)
    groups = {
        evidence.classifier: {
            _figure(evidence.classifier, group): group for group in group_by_words(evidence.effects, clusters)
        }
        for evidence in seen
    }
    contrasts = {
        figure: evidence.contrast(replace(evidence.edits, at=group.effects.at))
        for evidence in seen
        for figure, group in groups[evidence.classifier].items()
    }
    hypotheses = Hypotheses(CHANGES, contrasts, estimator)
    insights = [
        insight
        for classifier, found in groups.items()
        for insight in _of_classifier(classifier, found, hypotheses, estimator, figures)
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
    figures: TaskFigures,
) -> list[Insight]:
    significant = {
        groups[figure].pattern
        for figure in hypotheses.found
        if figure in groups and _tested(figure, groups[figure], hypotheses, estimator)[1].significant
    }
    ranked = rank_insights(groups.values(), significant)
    hints = [group for group in ranked if group.pattern not in significant]
    chosen = [*(group for group in ranked if group.pattern in significant), *hints[:MOST_HINTS]]
    return [_insight(classifier, group, hypotheses, estimator, figures) for group in chosen]


def _figure(classifier: str, group: Group) -> str:
    pattern = group.pattern
    words = [classifier, pattern.object_class, pattern.edit_type, pattern.removed, pattern.added]
    alike = [f"and {pattern.changes - 1} like it"] if pattern.changes > 1 else []
    return "insight/" + "/".join([*words, *alike])


def _tested(
    figure: str, group: Group, hypotheses: Hypotheses, estimator: LanceEstimator
) -> tuple[Estimate, Tested]:
    """The change of p(true class) of a group and its test, which no interval beside it may deny."""
    delta_p = estimator.mean_of(figure, group.effects.source, group.effects.delta_p)
    return delta_p, hypotheses.tested(figure, delta_p)


def _insight(
    classifier: str, group: Group, hypotheses: Hypotheses, estimator: LanceEstimator, figures: TaskFigures
) -> Insight:
    figure = _figure(classifier, group)
    delta_p, tested = _tested(figure, group, hypotheses, estimator)
    score = figures.score_of(group.pattern.object_class)
    return Insight(
        **dict(tested),
        classifier=classifier,
        object_class=group.pattern.object_class,
        edit_type=group.pattern.edit_type,
        removed=group.spoken.removed,
        added=group.spoken.added,
        delta_p=delta_p,
        example_item=group.worst.item,
        sentence=insight_sentence(classifier, group.spoken, delta_p, tested, score),
        n_sources=group.effects.n_sources,
        n_images=len(group.effects),
        cluster_size=group.pattern.changes,
        cluster_items=group.effects.items[:MOST_LISTED] if group.pattern.changes > 1 else [],
    )


Words = tuple[str, str]
"""The removed and the added words of an edit."""


def find_edit_clusters(seen: Sequence[Evidence], estimator: LanceEstimator) -> list[Cluster]:
    """K-means over the distinct changes of words of each class and edit type, each change with weight 1.

    The effects of edits on classifiers play no part. Only clusters of several changes are returned: a
    cluster of one change is the group of its exact words, and a cluster of all changes is the group of
    its type. Edits without recorded features belong to no cluster.
    """
    if not seen:
        return []
    columns = seen[0].edits.columns
    width = np.maximum(columns.vectors["removed"].width, columns.vectors["added"].width)
    at = np.unique(np.concatenate([evidence.edits.at for evidence in seen]))
    at = _of_one_kind(columns, at[width[at] != NONE], width)
    at = at[columns.edit_type[at] != NONE]
    clusters: list[Cluster] = []
    for (object_class, edit_type), cell in sorted(_cells(columns, at).items()):
        if len(np.unique(columns.unit[cell])) >= LEAST_SOURCES:
            figure = f"clusters/{object_class}/{edit_type}"
            clusters += _clusters(columns, cell, int(width[cell].max()), estimator.generator(figure))
    return clusters


def _of_one_kind(columns: ItemColumns, at: Ints, width: Ints) -> Ints:
    """The edits with the most common feature weights and width; others cannot be compared with them."""
    kinds = Counter(zip(columns.clip[at].tolist(), width[at].tolist(), strict=True))
    named = {(columns.name("clip", code), wide): number for (code, wide), number in kinds.items()}
    most = max(sorted(named), key=named.__getitem__, default=None)
    if most is None:
        return at
    return np.asarray(at[columns.of("clip", most[0])[at] & (width[at] == most[1])])


def _cells(columns: ItemColumns, at: Ints) -> Mapping[tuple[str, EditType], Ints]:
    """Class and edit type → the places of their edits."""
    types = len(columns.names["edit_type"].names)
    cells, found = in_order(columns.label[at].astype(np.int64) * types + columns.edit_type[at])
    return {
        (columns.name("label", cell // types), _edit_type(columns, cell % types)): at[found == number]
        for number, cell in enumerate(cells.tolist())
    }


def _edit_type(columns: ItemColumns, code: int) -> EditType:
    return cast(EditType, columns.name("edit_type", code))


def _clusters(columns: ItemColumns, cell: Ints, width: int, generator: np.random.Generator) -> list[Cluster]:
    changes, change = _changes(columns, cell)
    # Changes at several positions may have equal words and differ in the words between; they count as one.
    removed, added = (
        columns.features.means_by(width, columns.vectors[side].row[cell], change, len(changes))
        for side in ("removed", "added")
    )
    clustering = cluster_edits(removed, added, generator)
    if len(clustering.names) == 1:
        return []
    members = [clustering.members(cluster) for cluster in range(len(clustering.names))]
    first = int(cell[0])
    label, edit_type = columns.name("label", int(columns.label[first])), int(columns.edit_type[first])
    return [
        Cluster(
            Pattern(label, _edit_type(columns, edit_type), *changes[name], changes=len(indices)),
            cell[np.isin(change, indices)],
        )
        for name, indices in zip(clustering.names, members, strict=True)
        if len(indices) > 1
    ]


def _changes(columns: ItemColumns, cell: Ints) -> tuple[list[Words], Ints]:
    """The distinct changes of words, and the number of each edit's change.

    Sorted by words, so that the order in which items finish does not change clusters.
    """
    words = len(columns.names["removed"].names)
    said = columns.removed[cell].astype(np.int64) * words + columns.added[cell]
    codes, found = np.unique(said, return_inverse=True)
    changes = [
        (columns.name("removed", code // words), columns.name("added", code % words))
        for code in codes.tolist()
    ]
    order = sorted(range(len(changes)), key=changes.__getitem__)
    ranks = np.empty(len(order), dtype=np.intp)
    ranks[order] = np.arange(len(order))
    return [changes[place] for place in order], ranks[found]
