"""What became of one picture of a benchmark under the thresholds that a summary was made by."""

from __future__ import annotations

from typing import Literal

from faultline_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from faultline_core.contract.shift_benchmarks import BenchmarkShift, PictureResult
from faultline_core.shifts import BASE

Verdict = Literal["kept", "object", "shift", "object and shift"]
"""``kept``, or what the picture lacks."""


def verdict_of(result: PictureResult, class_name: str, summary: ShiftBenchmarkSummary) -> Verdict:
    """Hold one picture against the thresholds of ``summary``, as its own figures were made.

    Real pictures set the thresholds and are not judged by them: they are ``kept``.
    """
    if result.source == "real":
        return "kept"
    shift = next(each for each in summary.config.shifts if each.name == result.shift)
    has_object = _has_object(result, class_name, shift, summary)
    has_shift = _has_shift(result, summary)
    if has_object and has_shift:
        return "kept"
    return "object and shift" if not (has_object or has_shift) else "shift" if has_object else "object"


def _has_object(
    result: PictureResult, class_name: str, shift: BenchmarkShift, summary: ShiftBenchmarkSummary
) -> bool:
    known = summary.real.thresholds.get(class_name)
    if known is None:
        return True
    least = (known.threshold if shift.photo else known.plain).estimate
    return least is None or result.object_similarity >= least


def _has_shift(result: PictureResult, summary: ShiftBenchmarkSummary) -> bool:
    if result.shift == BASE:
        return True
    found = summary.sources[result.source].shifts.get(result.shift)
    if found is None:
        return True
    threshold = found.threshold
    if threshold.nothing_passes:
        return False
    if threshold.threshold is None:
        return True
    return result.shift_similarity is not None and result.shift_similarity >= threshold.threshold
