"""The transfer (Wiles et al., section 4.2, figure 4) as a method of the gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from counterpose_core.contract.runs import Run
from counterpose_core.contract.transfers import TransferItem, TransferSummary
from counterpose_core.types import RunKind
from counterpose_gateway.methods.transfer.plan import plan
from counterpose_gateway.methods.transfer.process import process
from counterpose_gateway.methods.transfer.report import render
from counterpose_gateway.methods.transfer.summary import summarize
from counterpose_gateway.runs.context import RecordedRuns
from counterpose_gateway.runs.method import FiguresOfEvents


class Transfer(FiguresOfEvents):
    """The method of transfers; `counterpose_gateway.runs.method.Method` says what each function does."""

    kind: RunKind = "transfer"
    item = TransferItem

    plan = staticmethod(plan)
    process = staticmethod(process)

    def summarize(
        self, run: Run, items: Iterable[TransferItem], view: None, context: RecordedRuns
    ) -> TransferSummary:
        """Sum up the matrix."""
        return summarize(run, items)

    def report(
        self,
        summary: TransferSummary,
        run: Run,
        items: Iterable[TransferItem],
        read_image: Callable[[str], bytes],
    ) -> str:
        """Write the report with the matrix."""
        return render(summary, run, read_image)


TRANSFER = Transfer()
