"""Sum up a hunt: baseline rates, descriptions, and the bugs on held-out images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from counterpose_core.contract.bug_hunt_summary import (
    BugHuntSummary,
    FailureCluster,
    HypothesisResult,
    HypothesisState,
    LabelBaseline,
)
from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntPhase
from counterpose_core.contract.runs import Run
from counterpose_gateway.methods.bug_hunt.baseline import baseline_rule
from counterpose_gateway.methods.bug_hunt.bugs import bugs_of, shown_images, verdict
from counterpose_gateway.methods.bug_hunt.clustering import answer_of, clusters_of
from counterpose_gateway.methods.bug_hunt.hunt import Hunt
from counterpose_gateway.methods.bug_hunt.hunted_items import HuntedItem
from counterpose_gateway.methods.bug_hunt.mixture import mixture_rates
from counterpose_gateway.methods.bug_hunt.proposals import count_captions, proposed
from counterpose_gateway.methods.bug_hunt.ranking import standings, winners
from counterpose_gateway.methods.bug_hunt.tree import search_tree
from counterpose_gateway.methods.bug_hunt.varied import edited_captions
from counterpose_gateway.runs.recorded import recorded_config
from counterpose_gateway.steps.failure_rates import failure_rate, ratio_of, taken_for
from counterpose_gateway.summaries.accounting import count_reasons


def summarize(run: Run, items: Iterable[HuntedItem]) -> BugHuntSummary:
    """Sum up the run so far: a part of an answer is an answer."""
    hunt = Hunt.of(recorded_config(BugHuntConfig, run), items)
    config, record = hunt.config, hunt.record
    hypotheses = _hypotheses(hunt)
    baselines = _baselines(hunt)
    edited = edited_captions(hunt)
    bugs = bugs_of(hunt, hypotheses)
    return BugHuntSummary(
        run_id=run.id,
        config=config,
        request_counts=run.request_counts,
        images=record.made,
        seconds=record.seconds,
        baselines=baselines,
        objects={label: record.threshold(label) for label in config.request.labels},
        edited=edited,
        clusters=_clusters(hunt),
        captions=count_captions(hunt, _left_out(hunt)),
        hypotheses=hypotheses,
        bugs=bugs,
        tree=search_tree(hunt, baselines, hypotheses, bugs),
        mixtures=mixture_rates(hunt),
        failed_codes=count_reasons(record.failed_codes),
        filtered=count_reasons(record.reasons),
        cost=record.cost,
        verdict=verdict(run, config, bugs, baselines, edited, len(hypotheses)),
    )


def _baselines(hunt: Hunt) -> list[LabelBaseline]:
    found: list[LabelBaseline] = []
    for label in hunt.request.labels:
        phase: HuntPhase = "baseline" if hunt.record.of_label("baseline", label) else "held-out"
        for classifier in hunt.request.classifiers:
            counted = hunt.record.counted(phase, label, classifier)
            found.append(
                LabelBaseline(
                    label=label,
                    classifier=classifier,
                    prompt=hunt.config.prompts[label],
                    failure=failure_rate(counted, hunt.request.criterion, baseline_rule(hunt.config)),
                    taken_for=taken_for(counted, classifier, label),
                )
            )
    return found


def _hypotheses(hunt: Hunt) -> list[HypothesisResult]:
    """The descriptions, each with the classifier that it is worst for."""
    found: list[HypothesisResult] = []
    for label in hunt.request.labels:
        won = set(winners(hunt, label)) if hunt.record.last not in ("baseline", "captions") else set[int]()
        described = hunt.record.descriptions(label)
        made = {number: len(hunt.record.of_label("hypothesis", label, number)) for number in described}
        if hunt.request.descriptions:
            won = set(described)
        for number, (standing, classifier) in standings(hunt, label).items():
            counted = hunt.record.counted("hypothesis", label, classifier, number)
            told = described[number]
            state: HypothesisState = "stopped" if made[number] < max(made.values()) else "not-above"
            found.append(
                HypothesisResult(
                    number=number,
                    label=label,
                    classifier=classifier,
                    prompt=told.prompt or "",
                    words=told.words,
                    source=told.source or "caption",
                    discovery=failure_rate(counted, hunt.request.criterion),
                    ratio=ratio_of(standing.described, standing.baseline),
                    state="winner" if number in won else state,
                )
            )
    return found


def _clusters(hunt: Hunt) -> list[FailureCluster]:
    if hunt.request.clusters == "none":
        return []
    return [
        FailureCluster(
            label=label,
            classifier=classifier,
            answer=answer_of(cluster[0], classifier),
            n=len(cluster),
            images=shown_images(cluster, classifier),
        )
        for label in hunt.request.labels
        for classifier in hunt.request.classifiers
        for cluster in clusters_of(hunt, label, classifier)
    ]


def _left_out(hunt: Hunt) -> Counter[str]:
    """Captions of failures that make no description, by reason."""
    left = Counter[str]()
    for label in hunt.request.labels:
        for classifier in hunt.request.classifiers:
            left += proposed(hunt, label, classifier).dropped
    return left
