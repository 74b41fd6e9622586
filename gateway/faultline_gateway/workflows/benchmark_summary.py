"""The summary of a shift benchmark: from recorded pictures to what each shift costs, source by source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from faultline_core.contract.runs import Run
from faultline_core.contract.shift_benchmark_summary import RealSummary, ShiftBenchmarkSummary, SourceSummary
from faultline_core.contract.shift_benchmarks import PictureItem, ShiftBenchmarkConfig
from faultline_core.contract.shift_thresholds import ShiftThresholdDecision, ThresholdInForce
from faultline_core.object_thresholds import OBJECT_PERCENTILE
from faultline_core.shift_filter import LEAST_PICTURES
from faultline_core.types import Cost
from faultline_gateway.workflows.benchmark_evidence import RealEvidence, SourceEvidence, by_source
from faultline_gateway.workflows.benchmark_prompts import summarize_prompts
from faultline_gateway.workflows.benchmark_source import has_class_figures, summarize_source
from faultline_gateway.workflows.estimates import Estimator
from faultline_gateway.workflows.object_limits import ObjectLimits, summarize_real
from faultline_gateway.workflows.threshold_decisions import thresholds_in_force


def summarize_benchmark(
    run: Run,
    items: Sequence[PictureItem],
    decisions: Sequence[ShiftThresholdDecision] = (),
    *,
    object_percentile: float = OBJECT_PERCENTILE,
) -> ShiftBenchmarkSummary:
    """Sum up a run as it stands, under the thresholds in force; nothing is generated or measured anew.

    Raises:
        InvalidRequest: the percentile is none.
    """
    config = ShiftBenchmarkConfig.model_validate(run.resolved_config)
    placed, estimator = by_source(items), Estimator(config.request.seed)
    real = RealEvidence.of(placed.get("real", []), config)
    limits = ObjectLimits.of(real, checkpoint=config.clip, percentile=object_percentile)
    thresholds = thresholds_in_force(config, decisions)
    least = {name: _least(each) for name, each in thresholds.items()}
    sources: dict[str, SourceSummary] = {}
    seen = []
    for source in config.request.sources:
        evidence = SourceEvidence.of(source, placed.get(source, []), config)
        verdicts = evidence.judged(config.clip, limits.least(evidence.conditions, evidence.classes), least)
        sources[source] = summarize_source(evidence, verdicts, real, thresholds, estimator)
        seen.append((evidence, verdicts.kept))
    told = summarize_real(real, limits)
    states = Counter[str](item.state for item in items)
    return ShiftBenchmarkSummary(
        run_id=run.id,
        interface=config.request.interface,
        dataset=run.dataset,
        seed=config.request.seed,
        object_percentile=object_percentile,
        sources=sources,
        real=told,
        models=config.zoo,
        prompts=summarize_prompts(seen, estimator),
        notes=[*_notes(config, sources, told, thresholds), *_changed_weights(items)],
        counts=_counts(states),
        failed_codes=dict(Counter(item.code or "unknown" for item in items if item.state == "failed")),
        dropped=dict(Counter(item.reason or "unknown" for item in items if item.state == "filtered")),
        cost=sum((item.result.cost for item in items if item.result), Cost()),
        service_seconds=_seconds(items),
        wall_s=_wall_seconds(run),
        config=config,
    )


def _least(threshold: ThresholdInForce) -> float | None:
    """What the filter takes: None where nothing passes, and minus infinity where everything does."""
    if threshold.nothing_passes:
        return None
    return -np.inf if threshold.threshold is None else threshold.threshold


def _counts(states: Counter[str]) -> dict[str, int]:
    ends = {name: states[name] for name in ("done", "filtered", "failed", "cancelled")}
    return {"planned": states.total(), **ends, "pending": states["pending"] + states["leased"]}


def _notes(
    config: ShiftBenchmarkConfig,
    sources: Mapping[str, SourceSummary],
    real: RealSummary,
    thresholds: Mapping[str, ThresholdInForce],
) -> list[str]:
    notes: list[str] = []
    if config.missing:
        notes.append(f"left out, as the interface has no token of them: {', '.join(config.missing)}")
    if real.without:
        names = ", ".join(real.without)
        notes.append(f"no real picture, so no object threshold of these, and no confounder gap: {names}")
    unset = [name for name, each in thresholds.items() if each.set_by is None]
    if unset:
        notes.append(f"no shift threshold, so only the object's criterion is applied: {', '.join(unset)}")
    if config.request.n < LEAST_PICTURES:
        notes.append(
            f"{config.request.n} pictures of each class: fewer than the {LEAST_PICTURES} that a class needs"
        )
    if not all(has_class_figures(source) for source in sources.values()):
        notes.append("figures of single classes are left out: there are too many, or no pictures")
    return notes


def _changed_weights(items: Sequence[PictureItem]) -> list[str]:
    """What one name stood for in the course of the run, where that changed."""
    answered: dict[str, set[str]] = {}
    for item in items:
        for name, model in item.result.models.items() if item.result else ():
            answered.setdefault(name, set()).add(model)
    return [
        f"the weights of {name!r} changed during the run: {', '.join(sorted(models))}"
        for name, models in sorted(answered.items())
        if len(models) > 1
    ]


def _seconds(items: Sequence[PictureItem]) -> dict[str, float]:
    seconds: Counter[str] = Counter()
    for item in items:
        seconds.update(item.result.service_seconds if item.result else {})
    return dict(sorted(seconds.items()))


def _wall_seconds(run: Run) -> float:
    if run.started_at is None or run.ended_at is None:
        return 0.0
    return max(0.0, (run.ended_at - run.started_at).total_seconds())
