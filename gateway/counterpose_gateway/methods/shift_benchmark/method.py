"""The shift benchmark as a method of the gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from counterpose_core.contract.runs import Run
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.shift_benchmarks import ImageItem
from counterpose_core.gate.regression_set import FrozenPair
from counterpose_core.shift_benchmark.object_thresholds import OBJECT_PERCENTILE
from counterpose_core.types import BlobRef, RunKind
from counterpose_gateway.exports import Card, Record
from counterpose_gateway.exports.method import ExportChoice
from counterpose_gateway.methods.shift_benchmark import plan, process
from counterpose_gateway.methods.shift_benchmark.export import benchmark_card, benchmark_records
from counterpose_gateway.methods.shift_benchmark.pairs import shifted_pairs
from counterpose_gateway.methods.shift_benchmark.reading import read_columns
from counterpose_gateway.methods.shift_benchmark.report.grid import shown_images
from counterpose_gateway.methods.shift_benchmark.report.report import render
from counterpose_gateway.methods.shift_benchmark.summary import summarize
from counterpose_gateway.methods.shift_benchmark.unreadable_images import UnreadableImages
from counterpose_gateway.runs.context import ItemsOfRun, RecordedRuns


class ShiftBenchmark:
    """The method of shift benchmarks; `counterpose_gateway.runs.method.Method` says what each function does.

    The view of a summary is the percentile of real images that sets the object thresholds.
    """

    kind: RunKind = "shift-benchmark"
    item = ImageItem
    rest_of_plan = staticmethod(plan.rest_of_plan)
    plan = staticmethod(plan.plan)
    process = staticmethod(process.process)

    def revision(self, run_id: str, context: RecordedRuns) -> int:
        """Return the number of the newest shift threshold decision, or 0 without a decision."""
        decisions = context.ledger.shift_decisions(run_id)
        return decisions[-1].id if decisions else 0

    def summarize(
        self, run: Run, items: Iterable[ImageItem], view: float, context: RecordedRuns
    ) -> ShiftBenchmarkSummary:
        """Sum up the cost of each shift under the thresholds in force."""

        def file_names(dataset: str) -> dict[BlobRef, str]:
            return {source.image: source.filename for source in context.ledger.sources(dataset)}

        decisions = context.ledger.shift_decisions(run.id)
        folder = UnreadableImages(context.store.get, file_names)
        return summarize(
            run, read_columns(run, context.ledger), decisions, object_percentile=view, folder=folder
        )

    def report(
        self,
        summary: ShiftBenchmarkSummary,
        run: Run,
        items: Iterable[ImageItem],
        read_image: Callable[[str], bytes],
    ) -> str:
        """Write the report with a grid of images of each shift."""
        shown = shown_images(summary, items.ledger) if isinstance(items, ItemsOfRun) else items
        return render(summary, run, shown, read_image)

    def pairs(self, run: Run, context: RecordedRuns) -> Iterator[FrozenPair]:
        """Return the kept images of each shift with the base image of the same seed."""
        summary = self.summarize(run, (), OBJECT_PERCENTILE, context)
        return shifted_pairs(summary, context.ledger.items_of(run.id, ImageItem))

    def export(
        self, summary: ShiftBenchmarkSummary, items: Iterable[ImageItem], choice: ExportChoice
    ) -> tuple[Card, Iterator[Record]]:
        """Return the images that the summary's thresholds keep."""
        records = benchmark_records(summary, items, dropped=choice.dropped, found=choice.found)
        return benchmark_card(summary, dropped=choice.dropped), records


SHIFT_BENCHMARK = ShiftBenchmark()
