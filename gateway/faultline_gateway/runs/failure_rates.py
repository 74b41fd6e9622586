"""Counts of failures as rates with their intervals, and what failures are taken for."""

from __future__ import annotations

from collections import Counter

from faultline_core.bug_hunt.comparison import FailureCounts, rate_ratio
from faultline_core.contract.bug_hunt_summary import FailureRate, RatioOfRates
from faultline_core.contract.failure_criteria import Criterion
from faultline_core.statistics.bootstrap import proportion
from faultline_gateway.runs.failed_samples import Counted, SampleT


def failure_rate(counted: Counted[SampleT], criterion: Criterion) -> FailureRate:
    """Return a failure rate with its interval and what was left out."""
    counts = counted.counts
    return FailureRate(
        failures=counts.failures,
        rate=proportion(counts.failures, counts.images),
        criterion=criterion,
        made=counted.made,
        dropped=dict(counted.dropped.most_common()),
    )


def ratio_of(described: FailureCounts, baseline: FailureCounts) -> RatioOfRates:
    """Return how many times the baseline's rate."""
    return RatioOfRates.model_validate(vars(rate_ratio(described, baseline)))


def taken_for(counted: Counted[SampleT], classifier: str, label: str) -> dict[str, int]:
    """Count the failures by the class that is predicted first; the label itself is none."""
    answers = Counter(
        item.result.predictions[classifier].top[0][0]
        for item in counted.failures
        if item.result is not None and classifier in item.result.predictions
    )
    # By count and then by name: equal figures of two runs are then equal texts.
    ordered = sorted(answers.items(), key=lambda pair: (-pair[1], pair[0]))
    return {name: number for name, number in ordered if name != label}
