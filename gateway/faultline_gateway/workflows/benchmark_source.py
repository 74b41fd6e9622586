"""What one source of pictures comes to: its yields, what each shift costs by it, and what it took."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from faultline_core.contract.shift_benchmark_summary import (
    ClassCondition,
    ConditionSummary,
    ShiftSummary,
    SourceSummary,
    UnsearchedPictures,
)
from faultline_core.contract.shift_thresholds import ThresholdInForce
from faultline_core.picture_quality import SourceQuality, source_quality
from faultline_core.shift_benchmark import ShiftRow, shift_benchmark
from faultline_core.shift_filter import ConditionYield, Verdicts, yields
from faultline_core.statistics import proportion
from faultline_gateway.workflows.benchmark_evidence import RealEvidence, SourceEvidence, Spent
from faultline_gateway.workflows.benchmark_rows import effect_row, gap_row, picture_counts
from faultline_gateway.workflows.estimates import Estimator

MOST_CLASS_FIGURES = 50_000
"""More accuracies of single classes than this would make the summary too long to be read or sent."""


def summarize_source(
    evidence: SourceEvidence,
    verdicts: Verdicts,
    spent: Spent,
    real: RealEvidence,
    thresholds: Mapping[str, ThresholdInForce],
    estimator: Estimator,
    unsearched: UnsearchedPictures | None = None,
) -> SourceSummary:
    """Sum up one source: its pictures as the filter left them, and each shift held against its base."""
    found = yields(verdicts)
    figure = f"benchmark/{evidence.source}"
    benchmark = shift_benchmark(
        evidence.answers(verdicts.kept), estimator.generator(figure), real=real.answers
    )
    conditions = {
        name: _condition(evidence, verdicts, found[name], index, estimator)
        for index, name in enumerate(evidence.names)
    }
    shifted = _quality(evidence, verdicts, slice(1, None), estimator.generator(f"{figure}/quality"))
    kept = int(verdicts.kept.sum())
    return SourceSummary(
        base=conditions[evidence.names[0]],
        shifts={
            row.shift: _shift(evidence, index, conditions[row.shift], row, thresholds[row.shift])
            for index, row in enumerate(benchmark.rows, start=1)
        },
        common=list(benchmark.common),
        passed=shifted.passed,
        to_object=shifted.to_object,
        to_shift=shifted.to_shift,
        classes=_classes(evidence, verdicts, found) if _fit(evidence) else {},
        cost=spent.cost,
        service_seconds=dict(sorted(spent.seconds.items())),
        evaluations_per_kept=spent.cost.unet_evaluations / kept if kept else None,
        seconds_per_kept=spent.seconds.total() / kept if kept else None,
        unsearched=unsearched,
    )


def has_class_figures(source: SourceSummary) -> bool:
    """Whether the figures of single classes are in the summary."""
    return bool(source.classes)


def _condition(
    evidence: SourceEvidence,
    verdicts: Verdicts,
    found: ConditionYield,
    index: int,
    estimator: Estimator,
) -> ConditionSummary:
    name = evidence.names[index]
    generator = estimator.generator(f"quality/{evidence.source}/{name}")
    quality = _quality(evidence, verdicts, slice(index, index + 1), generator)
    return ConditionSummary(
        counts=picture_counts(evidence.items[name], found.total),
        share_kept=found.total.share,
        thin=list(found.thin),
        to_object=quality.to_object,
        # The base has no shift to be like.
        to_shift=quality.to_shift if index else None,
    )


def _shift(
    evidence: SourceEvidence,
    index: int,
    condition: ConditionSummary,
    row: ShiftRow,
    threshold: ThresholdInForce,
) -> ShiftSummary:
    shift = evidence.conditions[index]
    return ShiftSummary(
        # Thin under the base is thin here, too: without base pictures a class has no drop.
        **(dict(condition) | {"thin": list(row.thin)}),
        family=shift.family,
        prompt=shift.prompt,
        caption=shift.caption,
        classes=shift.classes,
        threshold=threshold,
        effect=effect_row(row.effect),
        on_common=effect_row(row.on_common),
        gap=gap_row(row.gap),
        confounded=row.is_confounded,
    )


def _quality(
    evidence: SourceEvidence, verdicts: Verdicts, which: slice, generator: np.random.Generator
) -> SourceQuality:
    made = evidence.made[which]
    to_shift = evidence.to_shift[which][made]
    return source_quality(
        evidence.to_object[which][made],
        to_shift[np.isfinite(to_shift)],
        verdicts.kept[which][made],
        generator,
    )


def _fit(evidence: SourceEvidence) -> bool:
    return evidence.right[:, :, 0].size <= MOST_CLASS_FIGURES


def _classes(
    evidence: SourceEvidence, verdicts: Verdicts, found: Mapping[str, ConditionYield]
) -> dict[str, dict[str, ClassCondition]]:
    kept = verdicts.kept
    right = (evidence.right & kept[..., None]).sum(axis=2)
    n = kept.sum(axis=2)
    return {
        class_name: {
            name: ClassCondition(
                share_kept=found[name].by_class[class_name].share,
                models={
                    model: proportion(int(right[index, place, at]), int(n[index, place]))
                    for at, model in enumerate(evidence.models)
                },
            )
            for index, name in enumerate(evidence.names)
            if found[name].by_class[class_name].made
        }
        for place, class_name in enumerate(evidence.classes)
    }
