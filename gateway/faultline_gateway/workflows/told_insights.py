"""Which changes of words hurt which classifier on which class: found ones first, then hints."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.contract.stress_tests import Insight
from faultline_core.insights import Cluster, Group, group_by_words, rank_insights
from faultline_gateway.workflows.edit_clusters import edit_clusters
from faultline_gateway.workflows.estimates import Estimator
from faultline_gateway.workflows.evidence import Evidence
from faultline_gateway.workflows.hypotheses import Hypotheses, clusters_of
from faultline_gateway.workflows.sentences import insight_sentence

MOST_HINTS = 50


def tell_insights(seen: Sequence[Evidence], estimator: Estimator) -> list[Insight]:
    """List every finding, and the strongest hints, each part worst first over all classifiers."""
    clusters = edit_clusters(seen, estimator)
    told = [insight for each in seen for insight in _of_classifier(each, clusters, estimator)]
    found = [insight for insight in told if insight.significant]
    hints = [insight for insight in told if not insight.significant]
    return [*_worst_first(found), *_worst_first(hints)[:MOST_HINTS]]


def _worst_first(insights: Sequence[Insight]) -> list[Insight]:
    return sorted(insights, key=lambda insight: insight.delta_p.estimate or 0.0)


def _of_classifier(seen: Evidence, clusters: Sequence[Cluster], estimator: Estimator) -> list[Insight]:
    groups = {_figure(seen.classifier, group): group for group in group_by_words(seen.effects, clusters)}
    contrasts = {figure: seen.placebo_effects.contrast(group.drops) for figure, group in groups.items()}
    hypotheses = Hypotheses(clusters_of(seen.classifier), contrasts, estimator)
    found = {groups[figure].pattern for figure in hypotheses.found}
    ranked = rank_insights(groups.values(), found)
    hints = [group for group in ranked if group.pattern not in found]
    chosen = [*(group for group in ranked if group.pattern in found), *hints[:MOST_HINTS]]
    return [_insight(seen.classifier, group, hypotheses, estimator) for group in chosen]


def _figure(classifier: str, group: Group) -> str:
    pattern = group.pattern
    words = [classifier, pattern.object_class, pattern.edit_type, pattern.removed, pattern.added]
    alike = [f"and {pattern.changes - 1} like it"] if pattern.changes > 1 else []
    return "insight/" + "/".join([*words, *alike])


def _insight(classifier: str, group: Group, hypotheses: Hypotheses, estimator: Estimator) -> Insight:
    figure = _figure(classifier, group)
    tested = hypotheses.tested(figure)
    delta_p = estimator.mean(figure, ((effect.source, effect.delta_p) for effect in group.effects))
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
        n_sources=delta_p.n,
        n_images=len(group.effects),
        cluster_size=group.pattern.changes,
        cluster_items=[effect.item for effect in group.effects] if group.pattern.changes > 1 else [],
    )
