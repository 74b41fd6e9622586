"""The summary of one image source: its yields, the effect of each shift, and its cost.

The verdict on a shift: how sure it is that it costs the models accuracy, in the words of stress tests.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from counterpose_core.contract.findings import FindingState
from counterpose_core.contract.shift_benchmark_summary import (
    ClassCondition,
    ConditionSummary,
    EffectSummary,
    GapSummary,
    ImageCounts,
    ImageSourceSummary,
    ModelDrop,
    ShiftSummary,
    SlopeSummary,
    UnsearchedImages,
)
from counterpose_core.contract.shift_thresholds import ThresholdInForce
from counterpose_core.shift_benchmark.accuracy_line import Slope
from counterpose_core.shift_benchmark.benchmark import ShiftRow, shift_benchmark
from counterpose_core.shift_benchmark.generator_error import with_generator_error
from counterpose_core.shift_benchmark.generator_gap import ConfounderGap, Confounding
from counterpose_core.shift_benchmark.image_quality import ImageSourceQuality, image_source_quality
from counterpose_core.shift_benchmark.shift_effect import ShiftEffect
from counterpose_core.shift_benchmark.shift_filter import ConditionYield, Verdicts, Yield, yields
from counterpose_core.statistics.bootstrap import proportion
from counterpose_gateway.methods.shift_benchmark.columns import Usage, count_unanswered
from counterpose_gateway.methods.shift_benchmark.evidence import ImageSourceEvidence, RealEvidence
from counterpose_gateway.methods.shift_benchmark.images import NOT_FOUND
from counterpose_gateway.steps.estimator import Estimator
from counterpose_gateway.steps.generation import POLICY
from counterpose_gateway.steps.objectionable import OBJECTIONABLE
from counterpose_gateway.steps.safety import SAFETY

_UNMADE = ("pending", "leased", "cancelled")

MOST_CLASS_FIGURES = 50_000
"""More accuracies of single classes than this would make the summary too long to read or send."""


def summarize_image_source(
    evidence: ImageSourceEvidence,
    verdicts: Verdicts,
    usage: Usage,
    real: RealEvidence,
    thresholds: Mapping[str, ThresholdInForce],
    estimator: Estimator,
    unsearched: UnsearchedImages | None = None,
    *,
    suite: str = "",
) -> ImageSourceSummary:
    """Sum up one image source: its images after the filter, and each shift compared with its base.

    The generator's error is known for some suites; ``suite`` names the run's.
    """
    yields_of = yields(verdicts)
    figure = f"benchmark/{evidence.image_source}"
    benchmark = shift_benchmark(
        evidence.answers(verdicts.kept), estimator.generator(figure), real=real.answers
    )
    conditions = {
        name: _condition(evidence, verdicts, yields_of[name], index, estimator)
        for index, name in enumerate(evidence.names)
    }
    shifted = _quality(evidence, verdicts, slice(1, None), estimator.generator(f"{figure}/quality"))
    kept = int(verdicts.kept.sum())
    return ImageSourceSummary(
        base=conditions[evidence.names[0]],
        shifts={
            row.shift: _shift(evidence, index, conditions[row.shift], row, thresholds[row.shift], suite)
            for index, row in enumerate(benchmark.rows, start=1)
        },
        common=list(benchmark.common),
        passed=shifted.passed,
        to_object=shifted.to_object,
        to_shift=shifted.to_shift,
        classes=_classes(evidence, verdicts, yields_of) if _fit(evidence) else {},
        cost=usage.cost,
        service_seconds=dict(sorted(usage.seconds.items())),
        evaluations_per_kept=usage.cost.unet_evaluations / kept if kept else None,
        seconds_per_kept=usage.seconds.total() / kept if kept else None,
        unsearched=unsearched,
    )


def _condition(
    evidence: ImageSourceEvidence,
    verdicts: Verdicts,
    condition_yield: ConditionYield,
    index: int,
    estimator: Estimator,
) -> ConditionSummary:
    name = evidence.names[index]
    generator = estimator.generator(f"quality/{evidence.image_source}/{name}")
    quality = _quality(evidence, verdicts, slice(index, index + 1), generator)
    return ConditionSummary(
        counts=image_counts(evidence.ends[name], condition_yield.total),
        share_kept=condition_yield.total.share,
        thin=list(condition_yield.thin),
        to_object=quality.to_object,
        # The base has no shift to compare with.
        to_shift=quality.to_shift if index else None,
        unanswered=_unanswered(evidence, verdicts, index),
    )


def _unanswered(evidence: ImageSourceEvidence, verdicts: Verdicts, index: int) -> dict[str, int]:
    answered = None if evidence.answered is None else evidence.answered[index]
    return count_unanswered(answered, verdicts.kept[index], evidence.models)


def _shift(
    evidence: ImageSourceEvidence,
    index: int,
    condition: ConditionSummary,
    row: ShiftRow,
    threshold: ThresholdInForce,
    suite: str,
) -> ShiftSummary:
    shift = evidence.conditions[index]
    effect = effect_row(row.effect, suite, evidence.image_source)
    confounding = None if row.gap is None else row.gap.confounding
    return ShiftSummary(
        # A class that is thin under the base is thin here, too: without base images it has no drop.
        **(dict(condition) | {"thin": list(row.thin)}),
        state=state_of(effect, confounding),
        family=shift.family,
        prompt=shift.prompt,
        caption=shift.caption,
        classes=shift.classes,
        threshold=threshold,
        effect=effect,
        on_common=effect_row(row.on_common, suite, evidence.image_source),
        gap=gap_row(row.gap),
        confounded=row.is_confounded,
        confounding=confounding,
    )


def _quality(
    evidence: ImageSourceEvidence, verdicts: Verdicts, which: slice, generator: np.random.Generator
) -> ImageSourceQuality:
    made = evidence.made[which]
    to_shift = evidence.to_shift[which][made]
    return image_source_quality(
        evidence.to_object[which][made],
        to_shift[np.isfinite(to_shift)],
        verdicts.kept[which][made],
        generator,
    )


def _fit(evidence: ImageSourceEvidence) -> bool:
    return evidence.right[:, :, 0].size <= MOST_CLASS_FIGURES


def _classes(
    evidence: ImageSourceEvidence, verdicts: Verdicts, yields_of: Mapping[str, ConditionYield]
) -> dict[str, dict[str, ClassCondition]]:
    counted = evidence.counted(verdicts.kept)
    right = (evidence.right & counted).sum(axis=2)
    n = counted.sum(axis=2)
    return {
        class_name: {
            name: ClassCondition(
                share_kept=yields_of[name].by_class[class_name].share,
                models={
                    model: proportion(int(right[index, place, at]), int(n[index, place, at]))
                    for at, model in enumerate(evidence.models)
                },
            )
            for index, name in enumerate(evidence.names)
            if yields_of[name].by_class[class_name].made
        }
        for place, class_name in enumerate(evidence.classes)
    }


def image_counts(ends: Mapping[str, int], kept_yield: Yield) -> ImageCounts:
    """Count the items of a condition by how they ended; ``kept_yield`` is the filter's verdict on images."""
    return ImageCounts(
        planned=sum(ends.values()),
        kept=kept_yield.kept,
        without_object=kept_yield.without_object,
        without_shift=kept_yield.without_shift,
        without_both=kept_yield.without_both,
        objectionable=ends.get(OBJECTIONABLE, 0),
        policy=ends.get(POLICY, 0) + ends.get(SAFETY, 0),
        not_found=ends.get(NOT_FOUND, 0),
        failed=ends.get("failed", 0),
        unmade=sum(ends.get(state, 0) for state in _UNMADE),
    )


def effect_row(effect: ShiftEffect | None, suite: str, source: str) -> EffectSummary | None:
    """The effect of a shift; None if no class is left."""
    if effect is None:
        return None
    return EffectSummary(
        classes=list(effect.classes),
        models={
            drop.model: ModelDrop(
                base=drop.base,
                shifted=drop.shifted,
                drop=drop.drop,
                classes=None if drop.classes == effect.classes else list(drop.classes),
                compared=drop.is_compared,
            )
            for drop in effect.models
        },
        impact=effect.impact,
        impact_with_generator=with_generator_error(effect.impact, suite, source),
        p=effect.p,
        p_adjusted=effect.p_holm,
        slope=_slope(effect.slope),
        probit_slope=_slope(effect.probit_slope),
    )


def gap_row(gap: ConfounderGap | None) -> GapSummary | None:
    """The cost of the generator alone; None without real images to measure it."""
    if gap is None:
        return None
    return GapSummary.model_validate(gap, from_attributes=True)


def _slope(slope: Slope) -> SlopeSummary:
    return SlopeSummary.model_validate(slope, from_attributes=True)


SIGNIFICANCE_LEVEL = 0.05
"""A shift is shown to change accuracy if its p-value after Holm's correction is below."""

MARGIN = 0.10
"""The models hold under a shift if a mean loss of accuracy as large is ruled out."""


def is_significant(effect: EffectSummary | None) -> bool:
    """Whether a shift is shown to change accuracy."""
    return effect is not None and effect.p_adjusted < SIGNIFICANCE_LEVEL


def state_of(effect: EffectSummary | None, confounding: Confounding | None) -> FindingState:
    """The state of a shift: ``test-unfit`` replaces what its impact alone would say.

    A loss is only ``suspected`` to be the shift's as long as the generator alone may cost as much, or no real
    images tell what it costs.
    """
    if effect is None:
        return "cannot-tell"
    if confounding == "confounded":
        return "test-unfit"
    if is_significant(effect) and (effect.impact.estimate or 0.0) > 0.0:
        return "breaks" if confounding == "not-confounded" else "suspected"
    return "holds" if effect.impact.high is not None and effect.impact.high < MARGIN else "cannot-tell"
