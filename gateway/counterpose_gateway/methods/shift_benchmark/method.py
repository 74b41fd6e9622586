"""The shift benchmark as a method of the gateway.

The view of a summary is the percentile of real images that sets the object thresholds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from counterpose_core.contract.runs import Run
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.shift_benchmarks import ImageItem, ShiftBenchmarkCreate
from counterpose_core.errors import NotFound, PriceMissing
from counterpose_core.gate.regression_set import FrozenPair
from counterpose_core.shift_benchmark.object_thresholds import OBJECT_PERCENTILE
from counterpose_core.types import BlobRef
from counterpose_gateway.methods.shift_benchmark.columns import read_columns
from counterpose_gateway.methods.shift_benchmark.export import export, shifted_pairs
from counterpose_gateway.methods.shift_benchmark.images import UnreadableImages
from counterpose_gateway.methods.shift_benchmark.plan import plan, rest_of_plan
from counterpose_gateway.methods.shift_benchmark.process import process
from counterpose_gateway.methods.shift_benchmark.report.first_screen import headline, shown_images
from counterpose_gateway.methods.shift_benchmark.report.report import render
from counterpose_gateway.methods.shift_benchmark.summary import summarize
from counterpose_gateway.reports.states import worst
from counterpose_gateway.runs.context import ItemsOfRun, RecordedRuns
from counterpose_gateway.runs.method import Headline, Method, ReadImage


def _summarize(
    run: Run, items: Iterable[ImageItem], view: float, context: RecordedRuns
) -> ShiftBenchmarkSummary:
    """Sum up the cost of each shift under the thresholds in force."""

    def file_names(dataset: str) -> dict[BlobRef, str]:
        return {source.image: source.filename for source in context.ledger.datasets.sources(dataset)}

    decisions = context.ledger.decisions.of_run(run.id)
    folder = UnreadableImages(context.store.get, file_names)
    return summarize(run, read_columns(run, context.ledger), decisions, object_percentile=view, folder=folder)


def _report(
    summary: ShiftBenchmarkSummary, run: Run, items: Iterable[ImageItem], read_image: ReadImage
) -> str:
    """Write the report with a grid of images of each shift."""
    shown = shown_images(summary, items.ledger) if isinstance(items, ItemsOfRun) else items
    return render(summary, run, shown, read_image)


def _headline(summary: ShiftBenchmarkSummary) -> Headline:
    first = list(summary.image_sources.values())[:1]
    states = (shift.state for source in first for shift in source.shifts.values())
    return Headline(headline(summary), worst(states))


def _newest_decision(run_id: str, context: RecordedRuns) -> int:
    """Return the number of the newest shift threshold decision, or 0 without a decision."""
    decisions = context.ledger.decisions.of_run(run_id)
    return decisions[-1].id if decisions else 0


def _pairs(run: Run, context: RecordedRuns) -> Iterator[FrozenPair]:
    """Return the kept images of each shift with the base image of the same seed."""
    summary = _summarize(run, (), OBJECT_PERCENTILE, context)
    return shifted_pairs(summary, context.ledger.items.of(run.id, ImageItem))


def _percentile(given: Mapping[str, Any]) -> float:
    return float(given.get("object_percentile", OBJECT_PERCENTILE))


SHIFT_BENCHMARK = Method(
    kind="shift-benchmark",
    needs=("editor", "scorer", "classifiers"),
    abilities=("draw",),
    create=ShiftBenchmarkCreate,
    item=ImageItem,
    summary=ShiftBenchmarkSummary,
    plan=plan,
    process=process,
    summarize=_summarize,
    report=_report,
    headline=_headline,
    choices=("object_percentile", "found"),
    view=_percentile,
    problems=(NotFound, PriceMissing),
    revision=_newest_decision,
    rest_of_plan=rest_of_plan,
    live=("image",),
    pairs=_pairs,
    export=export,
)
