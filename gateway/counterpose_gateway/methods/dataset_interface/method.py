"""The dataset interface as a method of the gateway. Tokens are not a dataset, so it has no export."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from counterpose_core.contract.dataset_interfaces import DatasetInterfaceSummary, TokenItem
from counterpose_core.contract.runs import Run
from counterpose_core.types import RunKind
from counterpose_gateway.methods.dataset_interface import plan, process
from counterpose_gateway.methods.dataset_interface.report import render
from counterpose_gateway.methods.dataset_interface.summary import summarize
from counterpose_gateway.runs.context import RecordedRuns
from counterpose_gateway.runs.method import FiguresOfEvents


class DatasetInterface(FiguresOfEvents):
    """The method of dataset interfaces; `counterpose_gateway.runs.method.Method` says what each part does."""

    kind: RunKind = "dataset-interface"
    item = TokenItem
    rest_of_plan = staticmethod(plan.rest_of_plan)
    plan = staticmethod(plan.plan)
    process = staticmethod(process.process)

    def summarize(
        self, run: Run, items: Iterable[TokenItem], view: None, context: RecordedRuns
    ) -> DatasetInterfaceSummary:
        """Sum up which classes have a token, how good it is, and why the others have no token."""
        return summarize(run, items)

    def report(
        self,
        summary: DatasetInterfaceSummary,
        run: Run,
        items: Iterable[TokenItem],
        read_image: Callable[[str], bytes],
    ) -> str:
        """Write the report with real and generated images of each class."""
        return render(summary, run, items, read_image)


DATASET_INTERFACE = DatasetInterface()
