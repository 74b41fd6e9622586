"""The summary of a stress test: from recorded items to figures with intervals, and a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, get_args

import numpy as np

from counterpose_core.contract.confirmation import ConfirmationSummary
from counterpose_core.contract.findings import Finding
from counterpose_core.contract.groups import GroupingSummary
from counterpose_core.contract.judges import Rule
from counterpose_core.contract.regions import OF_MASKS
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_test_thresholds import GateThresholds
from counterpose_core.contract.stress_tests import (
    EditTypeSummary,
    StressTestConfig,
    StressTestSummary,
    SweepSummary,
    Unanswered,
)
from counterpose_core.contract.suite_fit import MEASURES, SuiteFitSummary
from counterpose_core.statistics.coded import Flags, Ints, in_order
from counterpose_core.tasks import figures_of
from counterpose_core.types import ItemKind
from counterpose_gateway.methods.stress_test.columns import ItemColumns, columns_of
from counterpose_gateway.methods.stress_test.columns.columns import total
from counterpose_gateway.methods.stress_test.screen.judges import JUDGED_AS
from counterpose_gateway.methods.stress_test.screen.preservation import PRESERVATION
from counterpose_gateway.methods.stress_test.screen.regions import NO_REGION
from counterpose_gateway.methods.stress_test.summary.class_summary import summarize_classes
from counterpose_gateway.methods.stress_test.summary.classifier_summary import by_edit_type, summarize_models
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.evidence import Evidence
from counterpose_gateway.methods.stress_test.summary.failure_modes import count_failure_modes
from counterpose_gateway.methods.stress_test.summary.findings import find, summarize_confirmation
from counterpose_gateway.methods.stress_test.summary.headline import verdict_text
from counterpose_gateway.methods.stress_test.summary.hints import as_findings
from counterpose_gateway.methods.stress_test.summary.image_quality import (
    summarize_perplexity,
    summarize_realism,
)
from counterpose_gateway.methods.stress_test.summary.insights import find_insights
from counterpose_gateway.methods.stress_test.summary.interventions import summarize_interventions
from counterpose_gateway.methods.stress_test.summary.judges import summarize_judges
from counterpose_gateway.methods.stress_test.summary.preservation import summarize_preservation
from counterpose_gateway.methods.stress_test.summary.verdict import classifier_verdicts
from counterpose_gateway.runs.recorded import recorded_config
from counterpose_gateway.steps.objectionable import OBJECTIONABLE
from counterpose_gateway.summaries.accounting import ends_of, wall_seconds
from counterpose_gateway.summaries.columns import NONE

SECTIONS: Mapping[str, Callable[[ItemColumns, LanceEstimator], Any]] = MappingProxyType(
    {
        "failure_modes": count_failure_modes,
        "preservation": summarize_preservation,
        "realism": summarize_realism,
        "perplexity": summarize_perplexity,
    }
)
"""Field of the summary → what computes it; the template of its name in ``stress_test/sections`` renders it.

A new statistic is a module that computes it, its template, its line here, and its field in the contract.
"""


def summarize(
    run: Run,
    items: ItemColumns | Iterable[Item],
    rule: Rule | None = None,
    gate: GateThresholds | None = None,
) -> StressTestSummary:
    """Sum up a run from the columns of its items, or from the items, as far as they are done.

    ``rule``, ``gate``: those by which judges and CLIP kept the items, if not the run's own.

    What follows the screen was chosen by its outcomes, so it enters the findings and the accounts alone.
    """
    config = recorded_config(StressTestConfig, run)
    columns = items if isinstance(items, ItemColumns) else columns_of(items, config.groups)
    estimator = LanceEstimator(config.request.seed)

    def seen() -> list[Evidence]:
        # Made anew for each figure: the arrays that evidence keeps for a figure are freed with it.
        return [Evidence.of(columns, spec) for spec in config.request.classifiers]

    models = summarize_models(seen(), config, estimator)
    figures = figures_of(config.request.task, config.labelled)
    insights = find_insights(seen(), estimator, figures)
    interventions = summarize_interventions(columns, seen(), config, estimator)
    counts = ends_of(_counted(columns, "state"))
    findings, confirmation = _findings(run, columns, config, estimator)
    # A run of one stage has insights, which its own test may show; its hints are not listed as findings.
    judged = as_findings(insights, seen(), estimator) if findings is None else findings
    proposed = bool(config.request.tested_types)
    verdicts = classifier_verdicts(models, judged, () if proposed else interventions)
    dropped = _counted(columns, "reason", columns.of("state", "filtered"))
    return StressTestSummary(
        task=figures,
        run_id=run.id,
        dataset=run.dataset,
        seed=config.request.seed,
        verdict=verdict_text(
            verdicts, judged, insights, counts, interventions, proposed=proposed, dropped=dropped
        ),
        verdicts=verdicts,
        findings=findings or [],
        confirmation=confirmation,
        baseline=config.baseline,
        models=models,
        edit_types=_over_models(seen(), config, estimator),
        insights=insights,
        interventions=interventions,
        counts=counts,
        **{"yield": estimator.yields(columns, unused=_unused_filters(config))},
        dropped=dropped,
        failed_codes=_counted(columns, "code", columns.of("state", "failed")),
        unknown_kinds={
            kind: number
            for kind, number in _counted(columns, "kind").items()
            if kind not in get_args(ItemKind)
        },
        cost=columns.sums.cost,
        service_seconds=dict(columns.sums.service_seconds),
        wall_s=wall_seconds(run),
        config=run.resolved_config,
        excluded_sources=len(config.excluded),
        grouping=_grouping(config),
        classes=summarize_classes(columns, seen(), config.classes, estimator),
        sweep=_sweep(columns, config),
        unanswered=count_unanswered(columns),
        suite_fit=_suite_fit(columns, config, estimator),
        unrepeated_seeds=int(columns.unrepeated[columns.screened & columns.done].sum()),
        judges=summarize_judges(columns, config, estimator, rule, gate),
        **{name: compute(columns, estimator) for name, compute in SECTIONS.items()},
    )


def _findings(
    run: Run, columns: ItemColumns, config: StressTestConfig, estimator: LanceEstimator
) -> tuple[list[Finding] | None, ConfirmationSummary | None]:
    """The findings of a run of several stages, None of one stage; and what its later stages did."""
    if config.confirmation is None or config.confirmation.reason:
        return None, summarize_confirmation(run, config, total(columns.stage > 1), 0)
    return find(run, columns, config, estimator)


def _over_models(
    seen: Sequence[Evidence], config: StressTestConfig, estimator: LanceEstimator
) -> dict[str, EditTypeSummary]:
    """The mean over models; an image counts once, regardless of the number of models."""
    summaries = by_edit_type("all models", [evidence.edits for evidence in seen], config, estimator)
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


def _counted(columns: ItemColumns, column: str, among: Flags | None = None) -> dict[str, int]:
    """Count the names of a column in the order in which they occur; a missing one is ``unknown``."""
    codes: Ints = getattr(columns, column) if among is None else getattr(columns, column)[among]
    distinct, places = in_order(codes)
    names = [columns.name(column, code) or "unknown" for code in distinct.tolist()]
    counts: Counter[str] = Counter()
    for name, number in zip(names, np.bincount(places, minlength=len(names)).tolist(), strict=True):
        counts[name] += number
    return dict(counts)


def _sweep(columns: ItemColumns, config: StressTestConfig) -> SweepSummary:
    tried = columns.tried[columns.screened & columns.with_result]
    return SweepSummary(
        selection=config.request.selection,
        values=len(config.editing.sweep),
        edits=total(tried > 0),
        made=int(tried.sum()),
    )


def _suite_fit(
    columns: ItemColumns, config: StressTestConfig, estimator: LanceEstimator
) -> SuiteFitSummary | None:
    known = columns.screened & (columns.outside != NONE)
    if not known.any():
        return None
    outside = columns.outside[known]
    return SuiteFitSummary(
        suite=config.suite,
        outside=total(outside > 0),
        share=estimator.share_of("outside-suite", columns.unit[known], outside > 0),
        by={name: total(outside & (1 << at) > 0) for at, name in enumerate(MEASURES)},
    )


def _unused_filters(config: StressTestConfig) -> list[str]:
    """The filters that the run did not apply; they have no yield."""
    request = config.request
    applied = {
        OBJECTIONABLE: config.objectionable is not None,
        **dict.fromkeys(JUDGED_AS, request.rule.asked),
        PRESERVATION: request.refused_faults,
        NO_REGION: request.region in OF_MASKS,
    }
    return [name for name, is_applied in applied.items() if not is_applied]


def count_unanswered(columns: ItemColumns) -> list[Unanswered]:
    """Count the kept images without an answer of each classifier, the most often first."""
    return unanswered_by(columns.sums.unanswered, columns.sums.predicted)


def unanswered_by(reasons: Mapping[str, Counter[str]], images: int) -> list[Unanswered]:
    """Name the classifiers that gave no answer to some of so many images, with the commonest reason."""
    found = [
        Unanswered(classifier=name, images=why.total(), of=images, detail=why.most_common(1)[0][0])
        for name, why in reasons.items()
    ]
    return sorted(found, key=lambda one: (-one.images, one.classifier))
