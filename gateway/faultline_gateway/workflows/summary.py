"""The summary of a stress test: from recorded items to figures with intervals, and a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from faultline_core.contract.runs import Item, Run
from faultline_core.contract.stress_tests import (
    EditTypeSummary,
    StressTestConfig,
    StressTestSummary,
    SweepSummary,
)
from faultline_core.types import Cost
from faultline_gateway.workflows.by_class import summarize_classes
from faultline_gateway.workflows.estimates import Estimator
from faultline_gateway.workflows.evidence import Evidence
from faultline_gateway.workflows.failure_tags import count_failure_modes
from faultline_gateway.workflows.interventions import summarize_interventions
from faultline_gateway.workflows.model_rows import by_edit_type, summarize_models
from faultline_gateway.workflows.objectionable import OBJECTIONABLE
from faultline_gateway.workflows.perplexity import summarize_perplexity
from faultline_gateway.workflows.realism import summarize_realism
from faultline_gateway.workflows.told_insights import tell_insights
from faultline_gateway.workflows.verdict import verdict


def summarize(run: Run, items: Sequence[Item]) -> StressTestSummary:
    """Sum up a run; figures cover what is done so far, and counts say how much that is."""
    config = StressTestConfig.model_validate(run.resolved_config)
    estimator = Estimator(config.request.seed)
    seen = [Evidence.of(items, spec) for spec in config.request.classifiers]
    models = summarize_models(seen, config, estimator)
    insights = tell_insights(seen, estimator)
    interventions = summarize_interventions(items, seen, config, estimator)
    counts = _counts(items)
    return StressTestSummary(
        run_id=run.id,
        dataset=run.dataset,
        seed=config.request.seed,
        verdict=verdict(models, insights, counts, interventions),
        models=models,
        edit_types=_over_models(seen, config, estimator),
        insights=insights,
        interventions=interventions,
        counts=counts,
        **{"yield": estimator.yields(items, unused=_unused_filters(config))},
        dropped=dict(Counter(item.reason or "unknown" for item in items if item.state == "filtered")),
        failed_codes=dict(Counter(item.code or "unknown" for item in items if item.state == "failed")),
        cost=sum((item.result.cost for item in items if item.result), Cost()),
        service_seconds=_service_seconds(items),
        wall_s=_wall_seconds(run),
        config=run.resolved_config,
        failure_modes=count_failure_modes(items, estimator),
        excluded_sources=len(config.excluded),
        classes=summarize_classes(items, seen, config.classes, estimator),
        realism=summarize_realism(items, estimator),
        perplexity=summarize_perplexity(items, estimator),
        sweep=_sweep(items, config),
    )


def _over_models(
    seen: Sequence[Evidence], config: StressTestConfig, estimator: Estimator
) -> dict[str, EditTypeSummary]:
    """The mean over models; an image counts once however many models saw it."""
    edits = [shot for each in seen for shot in each.edits]
    summaries = by_edit_type("all models", edits, config, estimator)
    return {
        edit_type: summary.model_copy(update={"n_images": summary.n_images // len(seen)})
        for edit_type, summary in summaries.items()
    }


def _counts(items: Sequence[Item]) -> dict[str, int]:
    states = Counter(item.state for item in items)
    return {
        "planned": len(items),
        "done": states["done"],
        "filtered": states["filtered"],
        "failed": states["failed"],
        "cancelled": states["cancelled"],
        "pending": states["pending"] + states["leased"],
    }


def _sweep(items: Sequence[Item], config: StressTestConfig) -> SweepSummary:
    tried = [item.result.self_replace_tried for item in items if item.result is not None]
    return SweepSummary(
        selection=config.request.selection,
        values=len(config.preset.self_replace),
        edits=sum(bool(values) for values in tried),
        made=sum(map(len, tried)),
    )


def _unused_filters(config: StressTestConfig) -> list[str]:
    """What was never looked for has no share that passed it."""
    return [OBJECTIONABLE] if config.objectionable is None else []


def _service_seconds(items: Sequence[Item]) -> dict[str, float]:
    seconds: Counter[str] = Counter()
    for item in items:
        seconds.update(item.result.service_seconds if item.result else {})
    return dict(sorted(seconds.items()))


def _wall_seconds(run: Run) -> float:
    if run.started_at is None or run.ended_at is None:
        return 0.0
    return max(0.0, (run.ended_at - run.started_at).total_seconds())
