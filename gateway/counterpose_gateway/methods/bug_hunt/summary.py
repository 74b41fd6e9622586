"""Sum up a hunt: baseline rates, descriptions, and the bugs on held-out images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from counterpose_core.contract.bug_hunt_summary import (
    BugHuntSummary,
    FailureCluster,
    HypothesisResult,
    HypothesisState,
    LabelBaseline,
    LabelObject,
)
from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntPhase
from counterpose_core.contract.runs import Run
from counterpose_gateway.methods.bug_hunt.bugs import bugs_of, shown_images, verdict
from counterpose_gateway.methods.bug_hunt.clustering import answer_of, clusters_of
from counterpose_gateway.methods.bug_hunt.counting import RecordedHunt
from counterpose_gateway.methods.bug_hunt.drawing import baseline_rule
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
    config = recorded_config(BugHuntConfig, run)
    hunt = RecordedHunt.of(items)
    objects = {label: hunt.threshold(label) for label in config.request.labels}
    hypotheses = _hypotheses(config, hunt, objects)
    baselines = _baselines(config, hunt, objects)
    edited = edited_captions(config, hunt)
    bugs = bugs_of(config, hunt, objects, hypotheses)
    return BugHuntSummary(
        run_id=run.id,
        config=config,
        request_counts=run.request_counts,
        images=hunt.made,
        seconds=hunt.seconds,
        baselines=baselines,
        objects=objects,
        edited=edited,
        clusters=_clusters(config, hunt),
        captions=count_captions(hunt, _left_out(config, hunt)),
        hypotheses=hypotheses,
        bugs=bugs,
        tree=search_tree(config, hunt, baselines, hypotheses, bugs),
        mixtures=mixture_rates(config, hunt),
        failed_codes=count_reasons(hunt.failed_codes),
        filtered=count_reasons(hunt.reasons),
        cost=hunt.cost,
        verdict=verdict(run, config, bugs, baselines, edited, len(hypotheses)),
    )


def _baselines(
    config: BugHuntConfig, hunt: RecordedHunt, objects: Mapping[str, LabelObject]
) -> list[LabelBaseline]:
    found: list[LabelBaseline] = []
    for label in config.request.labels:
        phase: HuntPhase = "baseline" if hunt.of_label("baseline", label) else "held-out"
        for classifier in config.request.classifiers:
            counted = hunt.counted(phase, label, classifier)
            found.append(
                LabelBaseline(
                    label=label,
                    classifier=classifier,
                    prompt=config.prompts[label],
                    failure=failure_rate(counted, config.request.criterion, baseline_rule(config)),
                    taken_for=taken_for(counted, classifier, label),
                )
            )
    return found


def _hypotheses(
    config: BugHuntConfig, hunt: RecordedHunt, objects: Mapping[str, LabelObject]
) -> list[HypothesisResult]:
    """The descriptions, each with the classifier that it is worst for."""
    found: list[HypothesisResult] = []
    for label in config.request.labels:
        won = set(winners(config, hunt, label)) if hunt.last not in ("baseline", "captions") else set[int]()
        described = hunt.descriptions(label)
        most = max((len(hunt.of_label("hypothesis", label, number)) for number in described), default=0)
        if config.request.descriptions:
            won = set(described)
        for number, (standing, classifier) in standings(config, hunt, label).items():
            items = hunt.of_label("hypothesis", label, number)
            counted = hunt.counted("hypothesis", label, classifier, number)
            told = described[number]
            state: HypothesisState = "stopped" if len(items) < most else "not-above"
            found.append(
                HypothesisResult(
                    number=number,
                    label=label,
                    classifier=classifier,
                    prompt=told.prompt or "",
                    words=told.words,
                    source=told.source or "caption",
                    discovery=failure_rate(counted, config.request.criterion),
                    ratio=ratio_of(standing.described, standing.baseline),
                    state="winner" if number in won else state,
                )
            )
    return found


def _clusters(config: BugHuntConfig, hunt: RecordedHunt) -> list[FailureCluster]:
    if config.request.clusters == "none":
        return []
    return [
        FailureCluster(
            label=label,
            classifier=classifier,
            answer=answer_of(cluster[0], classifier),
            n=len(cluster),
            images=shown_images(cluster, classifier),
        )
        for label in config.request.labels
        for classifier in config.request.classifiers
        for cluster in clusters_of(config, hunt, label, classifier)
    ]


def _left_out(config: BugHuntConfig, hunt: RecordedHunt) -> Counter[str]:
    """Captions of failures that make no description, by reason."""
    left = Counter[str]()
    for label in config.request.labels:
        for classifier in config.request.classifiers:
            left += proposed(config, hunt, label, classifier).dropped
    return left
