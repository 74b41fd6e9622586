"""The adversarial dataset (Wiles et al., section 4.2) as a method of the gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from counterpose_core.contract.adversarial_datasets import AdversarialItem
from counterpose_core.contract.runs import Run, RunItem
from counterpose_core.types import RunKind
from counterpose_gateway.exports.card import Card
from counterpose_gateway.exports.method import ExportChoice
from counterpose_gateway.exports.records import Record
from counterpose_gateway.methods.adversarial_dataset.export import adversarial_card, adversarial_records
from counterpose_gateway.methods.adversarial_dataset.plan import plan
from counterpose_gateway.methods.adversarial_dataset.process import process
from counterpose_gateway.methods.adversarial_dataset.report import render
from counterpose_gateway.methods.adversarial_dataset.stages import next_stage
from counterpose_gateway.methods.adversarial_dataset.summary import summarize
from counterpose_gateway.runs.context import RecordedRuns
from counterpose_gateway.runs.method import FiguresOfEvents
from counterpose_gateway.runs.stages import StagePlan


class AdversarialDatasets(FiguresOfEvents):
    """The method of adversarial datasets; `counterpose_gateway.runs.method.Method` says what each does."""

    kind: RunKind = "adversarial-dataset"
    item = AdversarialItem

    plan = staticmethod(plan)
    process = staticmethod(process)

    def next_stage(self, run: Run, results: Iterator[RunItem[Any]]) -> StagePlan | None:
        """Plan rounds of images of the captions."""
        return next_stage(run, (item for item in results if isinstance(item, AdversarialItem)))

    def summarize(
        self, run: Run, items: Iterable[AdversarialItem], view: None, context: RecordedRuns
    ) -> AdversarialDatasetSummary:
        """Sum up what is kept and how often captions fail."""
        return summarize(run, items)

    def report(
        self,
        summary: AdversarialDatasetSummary,
        run: Run,
        items: Iterable[AdversarialItem],
        read_image: Callable[[str], bytes],
    ) -> str:
        """Write the report: images that fool first, then every rate."""
        return render(summary, run, read_image)

    def export(
        self,
        summary: AdversarialDatasetSummary,
        items: Iterable[AdversarialItem],
        choice: ExportChoice,
    ) -> tuple[Card, Iterator[Record]]:
        """Return the images that the dataset keeps."""
        records = adversarial_records(summary, items, dropped=choice.dropped)
        return adversarial_card(summary, dropped=choice.dropped), records


ADVERSARIAL_DATASET = AdversarialDatasets()
