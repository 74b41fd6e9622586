"""The summary of a shift benchmark: from recorded pictures to what each shift costs, source by source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from faultline_core.contract.runs import Run
from faultline_core.contract.shift_benchmark_summary import RealSummary, ShiftBenchmarkSummary, SourceSummary
from faultline_core.contract.shift_benchmarks import PictureItem, ShiftBenchmarkConfig
from faultline_core.contract.shift_thresholds import ShiftThresholdDecision, ThresholdInForce
from faultline_core.object_thresholds import OBJECT_PERCENTILE
from faultline_core.shift_filter import LEAST_PICTURES
from faultline_core.types import Cost
from faultline_gateway.workflows.benchmark_evidence import RealEvidence, Recorded, SourceEvidence, Spent
from faultline_gateway.workflows.benchmark_prompts import summarize_prompts
from faultline_gateway.workflows.benchmark_source import has_class_figures, summarize_source
from faultline_gateway.workflows.estimates import Estimator
from faultline_gateway.workflows.object_limits import ObjectLimits, summarize_real
from faultline_gateway.workflows.threshold_decisions import thresholds_in_force
from faultline_gateway.workflows.unknown_traits import unknown_traits
from faultline_gateway.workflows.unsearched_pictures import SearchedFolder, unsearched_notes


def summarize_benchmark(
    run: Run,
    items: Iterable[PictureItem],
    decisions: Sequence[ShiftThresholdDecision] = (),
    *,
    object_percentile: float = OBJECT_PERCENTILE,
    folder: SearchedFolder | None = None,
) -> ShiftBenchmarkSummary:
    """Sum up a run as it stands, under the thresholds in force; nothing is generated or measured anew.

    ``folder`` reads which pictures were not searched; without it the notes say that this cannot be told.

    Raises:
        InvalidRequest: the percentile is none.
    """
    config = ShiftBenchmarkConfig.model_validate(run.resolved_config)
    recorded, estimator = Recorded(items, config.request.classifiers), Estimator(config.request.seed)
    real = RealEvidence.of(recorded.placed.get("real", []), config)
    limits = ObjectLimits.of(real, checkpoint=config.clip, percentile=object_percentile)
    thresholds = thresholds_in_force(config, decisions)
    least = {name: _least(each) for name, each in thresholds.items()}
    sources: dict[str, SourceSummary] = {}
    seen = []
    for source in config.request.sources:
        evidence = SourceEvidence.of(source, recorded.placed.get(source, []), config)
        spent = recorded.spent.get(source, Spent())
        verdicts = evidence.judged(config.clip, limits.least(evidence.conditions, evidence.classes), least)
        left_out = None if folder is None else folder.unsearched(spent.unsearched, config)
        sources[source] = summarize_source(evidence, verdicts, spent, real, thresholds, estimator, left_out)
        seen.append((evidence, verdicts.kept))
    told = summarize_real(real, limits)
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
        notes=[
            *_notes(config, sources, told, thresholds),
            *unknown_traits(config),
            *unsearched_notes(config, recorded.spent, sources),
            *_changed_weights(recorded),
        ],
        counts=_counts(recorded),
        failed_codes=dict(recorded.codes),
        dropped=_dropped(recorded),
        cost=sum((spent.cost for spent in recorded.spent.values()), Cost()),
        service_seconds=_seconds(recorded),
        wall_s=_wall_seconds(run),
        config=config,
    )


def _least(threshold: ThresholdInForce) -> float | None:
    """What the filter takes: None where nothing passes, and minus infinity where everything does."""
    if threshold.nothing_passes:
        return None
    return -np.inf if threshold.threshold is None else threshold.threshold


def _dropped(recorded: Recorded) -> dict[str, int]:
    return dict(Counter(each.reason or "unknown" for each in recorded.everything if each.state == "filtered"))


def _counts(recorded: Recorded) -> dict[str, int]:
    states = Counter[str](each.state for each in recorded.everything)
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


def _changed_weights(recorded: Recorded) -> list[str]:
    """What one name stood for in the course of the run, where that changed."""
    answered: dict[str, set[str]] = {}
    for spent in recorded.spent.values():
        for name, models in spent.weights.items():
            answered.setdefault(name, set()).update(models)
    return [
        f"the weights of {name!r} changed during the run: {', '.join(sorted(models))}"
        for name, models in sorted(answered.items())
        if len(models) > 1
    ]


def _seconds(recorded: Recorded) -> dict[str, float]:
    seconds: Counter[str] = Counter()
    for spent in recorded.spent.values():
        seconds.update(spent.seconds)
    return dict(sorted(seconds.items()))


def _wall_seconds(run: Run) -> float:
    if run.started_at is None or run.ended_at is None:
        return 0.0
    return max(0.0, (run.ended_at - run.started_at).total_seconds())
