"""The gate as a method of the gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from counterpose_core.contract.gates import GateItem, GateSummary
from counterpose_core.contract.runs import Run
from counterpose_core.types import RunKind
from counterpose_gateway.methods.gate.plan import plan
from counterpose_gateway.methods.gate.process import process
from counterpose_gateway.methods.gate.report import render
from counterpose_gateway.methods.gate.summary import summarize
from counterpose_gateway.runs.context import RecordedRuns
from counterpose_gateway.runs.method import FiguresOfEvents


class Gate(FiguresOfEvents):
    """The method of gates; `counterpose_gateway.runs.method.Method` says what each function does."""

    kind: RunKind = "gate"
    item = GateItem

    plan = staticmethod(plan)
    process = staticmethod(process)

    def summarize(
        self, run: Run, items: Iterable[GateItem], view: None, context: RecordedRuns
    ) -> GateSummary:
        """Judge every cell."""
        return summarize(run, items)

    def report(
        self,
        summary: GateSummary,
        run: Run,
        items: Iterable[GateItem],
        read_image: Callable[[str], bytes],
    ) -> str:
        """Write the report with every cell."""
        return render(summary, run, read_image)


GATE = Gate()
