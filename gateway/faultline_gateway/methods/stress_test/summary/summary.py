"""The summary of a stress test: from recorded items to figures with intervals, and a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.contract.groups import GroupingSummary
from faultline_core.contract.runs import Item, Run
from faultline_core.contract.stress_tests import (
    EditTypeSummary,
    StressTestConfig,
    StressTestSummary,
    SweepSummary,
)
from faultline_core.types import Cost
from faultline_gateway.methods.stress_test.summary.class_summary import summarize_classes
from faultline_gateway.methods.stress_test.summary.classifier_summary import by_edit_type, summarize_models
from faultline_gateway.methods.stress_test.summary.estimates import LanceEstimator
from faultline_gateway.methods.stress_test.summary.evidence import Evidence
from faultline_gateway.methods.stress_test.summary.failure_modes import count_failure_modes
from faultline_gateway.methods.stress_test.summary.findings import find
from faultline_gateway.methods.stress_test.summary.headline import verdict_text
from faultline_gateway.methods.stress_test.summary.hints import as_findings
from faultline_gateway.methods.stress_test.summary.image_quality import (
    summarize_perplexity,
    summarize_realism,
)
from faultline_gateway.methods.stress_test.summary.insights import find_insights
from faultline_gateway.methods.stress_test.summary.interventions import summarize_interventions
from faultline_gateway.methods.stress_test.summary.unanswered import count_unanswered
from faultline_gateway.methods.stress_test.summary.verdict import classifier_verdicts
from faultline_gateway.runs.accounting import count_ends, count_reasons, total_seconds, wall_seconds
from faultline_gateway.runs.objectionable import OBJECTIONABLE
from faultline_gateway.runs.recorded import recorded_config


def summarize(run: Run, items: Sequence[Item]) -> StressTestSummary:
    """Sum up a run; figures cover the items done so far, and counts give their number.

    What follows the screen was chosen by its outcomes, so it enters the findings and the accounts alone.
    """
    config = recorded_config(StressTestConfig, run)
    groups = {} if config.grouping is None else config.grouping.groups
    estimator = LanceEstimator(config.request.seed, groups)
    screened = [item for item in items if item.stage == 1]
    seen = [Evidence.of(screened, spec, groups) for spec in config.request.classifiers]
    models = summarize_models(seen, config, estimator)
    insights = find_insights(seen, estimator)
    interventions = summarize_interventions(screened, seen, config, estimator)
    counts = count_ends(item.state for item in items)
    findings, confirmation = find(run, items, config, estimator)
    # A run of one stage has insights, which its own test may show; its hints are not listed as findings.
    if confirmation is None or config.confirmation is None or config.confirmation.reason:
        findings, judged = [], as_findings(insights, seen, estimator)
    else:
        judged = findings
    proposed = bool(config.request.tested_types)
    verdicts = classifier_verdicts(models, judged, () if proposed else interventions)
    dropped = count_reasons(item.reason for item in items if item.state == "filtered")
    return StressTestSummary(
        run_id=run.id,
        dataset=run.dataset,
        seed=config.request.seed,
        verdict=verdict_text(
            verdicts,
            judged,
            insights,
            counts,
            interventions,
            proposed=proposed,
            dropped=dropped,
        ),
        verdicts=verdicts,
        findings=findings,
        confirmation=confirmation,
        models=models,
        edit_types=_over_models(seen, config, estimator),
        insights=insights,
        interventions=interventions,
        counts=counts,
        **{"yield": estimator.yields(screened, unused=_unused_filters(config))},
        dropped=dropped,
        failed_codes=count_reasons(item.code for item in items if item.state == "failed"),
        cost=sum((item.result.cost for item in items if item.result), Cost()),
        service_seconds=total_seconds(item.result.service_seconds for item in items if item.result),
        wall_s=wall_seconds(run),
        config=run.resolved_config,
        failure_modes=count_failure_modes(screened, estimator),
        excluded_sources=len(config.excluded),
        grouping=_grouping(config),
        classes=summarize_classes(screened, seen, config.classes, estimator),
        realism=summarize_realism(screened, estimator),
        perplexity=summarize_perplexity(screened, estimator),
        sweep=_sweep(screened, config),
        unanswered=count_unanswered(items),
    )


def _over_models(
    seen: Sequence[Evidence], config: StressTestConfig, estimator: LanceEstimator
) -> dict[str, EditTypeSummary]:
    """The mean over models; an image counts once, regardless of the number of models."""
    edits = [shot for evidence in seen for shot in evidence.edits]
    summaries = by_edit_type("all models", edits, config, estimator)
    return {
        edit_type: summary.model_copy(update={"n_images": summary.n_images // len(seen)})
        for edit_type, summary in summaries.items()
    }


def _grouping(config: StressTestConfig) -> GroupingSummary | None:
    found = config.grouping
    if found is None:
        return None
    counts = found.model_dump(exclude={"groups"})
    return GroupingSummary(groups=len(set(found.groups.values())), **counts)


def _sweep(items: Sequence[Item], config: StressTestConfig) -> SweepSummary:
    tried = [item.result.self_replace_tried for item in items if item.result is not None]
    return SweepSummary(
        selection=config.request.selection,
        values=len(config.preset.self_replace),
        edits=sum(bool(values) for values in tried),
        made=sum(map(len, tried)),
    )


def _unused_filters(config: StressTestConfig) -> list[str]:
    """The filters that the run did not apply; they have no yield."""
    return [OBJECTIONABLE] if config.objectionable is None else []
