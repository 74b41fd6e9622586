"""Object thresholds of a benchmark: a percentile of the real pictures' similarities, class by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from faultline_core.contract.shift_benchmark_summary import ObjectThresholdSummary, RealSummary
from faultline_core.contract.shift_benchmarks import BenchmarkShift
from faultline_core.object_thresholds import ObjectThresholds, object_thresholds
from faultline_core.statistics import proportion
from faultline_gateway.workflows.benchmark_evidence import Floats, RealEvidence, right_answers

_EVERYTHING = -np.inf
"""Where a class has no real picture nothing is known of what it looks like, and all of it passes."""


@dataclass(frozen=True)
class ObjectLimits:
    """The thresholds of photographs and of styles, whose captions do not say "a photo of"."""

    photo: ObjectThresholds
    plain: ObjectThresholds

    @classmethod
    def of(cls, real: RealEvidence, *, checkpoint: str, percentile: float) -> ObjectLimits:
        """Take the percentile of each class that has real pictures.

        Raises:
            InvalidRequest: the percentile is none.
        """
        photo, plain = (
            object_thresholds(
                real.similarities(photo=form), checkpoint=checkpoint, percentile=percentile, photo=form
            )
            for form in (True, False)
        )
        return cls(photo, plain)

    def least(self, conditions: Sequence[BenchmarkShift], classes: Sequence[str]) -> Floats:
        """The least similarities that pass (conditions, classes)."""
        forms = [self.photo if shift.photo else self.plain for shift in conditions]
        return np.array([[_least(form, name) for name in classes] for form in forms], dtype=np.float64)


def _least(form: ObjectThresholds, class_name: str) -> float:
    known = form.by_class.get(class_name)
    threshold = None if known is None else known.threshold.estimate
    return _EVERYTHING if threshold is None else threshold


def summarize_real(real: RealEvidence, limits: ObjectLimits) -> RealSummary:
    """Sum up the real pictures and what is set by them."""
    found = [result for results in real.pictures.values() for result in results]
    answers = np.array([right_answers(result) for result in found], dtype=np.bool_)
    right = answers.reshape(len(found), len(real.models)).sum(axis=0)
    return RealSummary(
        pictures=len(found),
        failed=real.failed,
        thresholds={
            name: ObjectThresholdSummary(
                threshold=each.threshold,
                plain=limits.plain.by_class[name].threshold,
                dropped=each.dropped,
            )
            for name, each in limits.photo.by_class.items()
        },
        models={
            model: proportion(int(count), len(found)) for model, count in zip(real.models, right, strict=True)
        },
        without=real.without,
    )
