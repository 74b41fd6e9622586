"""Counts of failures as rates with their intervals, and what failures are taken for."""

from __future__ import annotations

from collections import Counter

from counterpose_core.bug_hunt.comparison import FailureCounts, rate_ratio
from counterpose_core.bug_hunt.pairs import ratio_at_any_stop
from counterpose_core.bug_hunt.sampling import FixedSampling, Sampling, until_decided
from counterpose_core.contract.bug_hunt_summary import FailureRate, RatioOfRates, ShownFailures
from counterpose_core.contract.failure_criteria import Criterion
from counterpose_core.statistics.bootstrap import proportion
from counterpose_gateway.steps.failed_samples import Counted, SampleT, recognised, seen_by_clip

AS_DRAWN = FixedSampling(images=1)
"""For images whose number no rule of the request decided: the plain share of all."""


def failure_rate(counted: Counted[SampleT], criterion: Criterion, rule: Sampling = AS_DRAWN) -> FailureRate:
    """Return a failure rate with the estimate and interval of its rule, and what was left out."""
    counts = until_decided(rule, [failed for _, failed in counted.answers])
    ended = rule is AS_DRAWN or (counted.is_whole and counted.made >= rule.most)
    return FailureRate(
        failures=counts.failures,
        rate=rule.rate(counts.failures, counts.images, ended=ended),
        criterion=criterion,
        sampling=rule.name,
        evidence=_evidence(counted),
        made=counted.made,
        dropped=dict(counted.dropped.most_common()),
    )


def _evidence(counted: Counted[SampleT]) -> ShownFailures | None:
    shown, hidden = len(counted.failures), counted.hidden
    if not shown + hidden:
        return None
    return ShownFailures(
        wrong=shown + hidden,
        shown=shown,
        by_clip=seen_by_clip(counted),
        recognised=recognised(counted),
        rate_of_all=proportion(shown + hidden, counted.counts.images + hidden),
    )


def ratio_of(described: FailureCounts, baseline: FailureCounts, rule: Sampling = AS_DRAWN) -> RatioOfRates:
    """Return how many times the baseline's rate."""
    ratio = rate_ratio if isinstance(rule, FixedSampling) else ratio_at_any_stop
    return RatioOfRates.model_validate(vars(ratio(described, baseline)))


def taken_for(counted: Counted[SampleT], classifier: str, label: str) -> dict[str, int]:
    """Count the failures by the class that is predicted first; the label itself is none."""
    answers = Counter(
        item.result.predictions[classifier].answer
        for item in counted.failures
        if item.result is not None and classifier in item.result.predictions
    )
    # By count and then by name: equal figures of two runs are then equal texts.
    ordered = sorted(answers.items(), key=lambda pair: (-pair[1], pair[0]))
    return {name: number for name, number in ordered if name != label}
