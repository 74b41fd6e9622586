"""The pairs of a shift benchmark that a gate classifies again: base and shifted image of one seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.shift_benchmarks import ImageItem
from counterpose_core.gate.regression_set import FrozenPair
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.types import BlobRef
from counterpose_gateway.methods.shift_benchmark.cells import GENERATED
from counterpose_gateway.methods.shift_benchmark.thresholds import filter_verdict


def shifted_pairs(summary: ShiftBenchmarkSummary, items: Iterable[ImageItem]) -> Iterator[FrozenPair]:
    """Yield each generated image of a shift with the base image of its seed, if the thresholds keep both.

    Images that were found have no counterpart without the shift.
    """
    kept = [
        (item, item.result)
        for item in items
        if item.state == "done"
        and item.result is not None
        and item.result.image_source in GENERATED
        and filter_verdict(item.result, item.label, summary) == "kept"
    ]
    base: dict[tuple[str, str, int], BlobRef] = {
        (result.image_source, item.label, item.slot): result.image
        for item, result in kept
        if result.shift == BASE
    }
    several = len({result.image_source for _, result in kept}) > 1
    for item, result in kept:
        source = base.get((result.image_source, item.label, item.slot))
        if source is not None and result.shift != BASE:
            change = f"{result.shift} by {result.image_source}" if several else result.shift
            yield FrozenPair(change, item.label, unit=source, source=source, image=result.image)
