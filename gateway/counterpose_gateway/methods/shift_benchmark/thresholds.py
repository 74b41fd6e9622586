"""The thresholds of a benchmark: objects' from real images, shifts' from reviewers; and their verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from counterpose_core.contract.shift_benchmark_summary import (
    ObjectThresholdSummary,
    RealSummary,
    ShiftBenchmarkSummary,
)
from counterpose_core.contract.shift_benchmarks import BenchmarkShift, ImageResult, ShiftBenchmarkConfig
from counterpose_core.contract.shift_thresholds import ShiftThresholdDecision, ThresholdInForce
from counterpose_core.shift_benchmark.object_thresholds import ObjectThresholds, object_thresholds
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.statistics.coded import Floats
from counterpose_gateway.methods.shift_benchmark.columns import count_unanswered
from counterpose_gateway.methods.shift_benchmark.evidence import RealEvidence

_EVERYTHING = -np.inf
"""The threshold of a class without real images: every image passes."""


@dataclass(frozen=True)
class ThresholdsByForm:
    """The thresholds for photographs and for styles, whose captions do not say "a photo of"."""

    photo: ObjectThresholds
    plain: ObjectThresholds

    @classmethod
    def of(cls, real: RealEvidence, *, checkpoint: str, percentile: float) -> ThresholdsByForm:
        """Take the percentile of each class that has real images.

        Raises:
            InvalidRequest: the percentile is not valid.
        """
        photo, plain = (
            object_thresholds(
                real.similarities(photo=form), checkpoint=checkpoint, percentile=percentile, photo=form
            )
            for form in (True, False)
        )
        return cls(photo, plain)

    def least(self, conditions: Sequence[BenchmarkShift], classes: Sequence[str]) -> Floats:
        """The lowest similarities that pass (conditions, classes)."""
        forms = [self.photo if shift.photo else self.plain for shift in conditions]
        return np.array([[_least(form, name) for name in classes] for form in forms], dtype=np.float64)


def _least(form: ObjectThresholds, class_name: str) -> float:
    known = form.by_class.get(class_name)
    threshold = None if known is None else known.threshold.estimate
    return _EVERYTHING if threshold is None else threshold


def summarize_real(real: RealEvidence, limits: ThresholdsByForm) -> RealSummary:
    """Sum up the real images and the thresholds that they set."""
    rows = real.rows
    right, answered = real.columns.right(rows), real.columns.answered(rows)
    return RealSummary(
        images=len(rows),
        failed=real.failed,
        thresholds={
            name: ObjectThresholdSummary(
                threshold=threshold.threshold,
                plain=limits.plain.by_class[name].threshold,
                dropped=threshold.dropped,
            )
            for name, threshold in limits.photo.by_class.items()
        },
        models={
            model: proportion(int(right[:, at].sum()), int(answered[:, at].sum()))
            for at, model in enumerate(real.models)
        },
        unanswered=count_unanswered(answered, np.ones(len(rows), dtype=np.bool_), real.models),
        without=real.without,
    )


def thresholds_in_force(
    config: ShiftBenchmarkConfig, decisions: Iterable[ShiftThresholdDecision]
) -> dict[str, ThresholdInForce]:
    """The threshold of each shift but the base; ``decisions`` come oldest first."""
    # Another CLIP's similarities have another scale: decisions based on them do not apply here.
    newest = {decision.shift: decision for decision in decisions if decision.checkpoint == config.clip}
    shifts = (shift for shift in config.shifts if shift.name != BASE)
    return {shift.name: _in_force(shift, newest.get(shift.name)) for shift in shifts}


def _in_force(shift: BenchmarkShift, decision: ShiftThresholdDecision | None) -> ThresholdInForce:
    if decision is None:
        return ThresholdInForce(threshold=shift.threshold, set_by=shift.threshold_from)
    return ThresholdInForce(
        threshold=decision.threshold,
        set_by="person",
        author=decision.author,
        decided_at=decision.decided_at,
        percentile=decision.percentile,
        nothing_passes=decision.threshold is None,
    )


Verdict = Literal["kept", "object", "shift", "object and shift"]
"""``kept``, or the part that the image lacks."""


def filter_verdict(result: ImageResult, class_name: str, summary: ShiftBenchmarkSummary) -> Verdict:
    """Compare one image with the thresholds of ``summary``, as its figures did.

    Real images set the thresholds and are not judged by them: they are ``kept``.
    """
    if result.image_source == "real":
        return "kept"
    shift = next(condition for condition in summary.config.shifts if condition.name == result.shift)
    has_object = _has_object(result, class_name, shift, summary)
    has_shift = _has_shift(result, summary)
    if has_object and has_shift:
        return "kept"
    return "object and shift" if not (has_object or has_shift) else "shift" if has_object else "object"


def _has_object(
    result: ImageResult, class_name: str, shift: BenchmarkShift, summary: ShiftBenchmarkSummary
) -> bool:
    known = summary.real.thresholds.get(class_name)
    if known is None:
        return True
    least = (known.threshold if shift.photo else known.plain).estimate
    return least is None or result.object_similarity >= least


def _has_shift(result: ImageResult, summary: ShiftBenchmarkSummary) -> bool:
    if result.shift == BASE:
        return True
    shift_summary = summary.image_sources[result.image_source].shifts.get(result.shift)
    if shift_summary is None:
        return True
    threshold = shift_summary.threshold
    if threshold.nothing_passes:
        return False
    if threshold.threshold is None:
        return True
    return result.shift_similarity is not None and result.shift_similarity >= threshold.threshold
