"""The gate as a method of the gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from faultline_core.contract.gates import GateItem, GateSummary
from faultline_core.contract.runs import Run
from faultline_core.types import RunKind
from faultline_gateway.methods.gate.plan import plan
from faultline_gateway.methods.gate.process import process
from faultline_gateway.methods.gate.report import render
from faultline_gateway.methods.gate.summary import summarize
from faultline_gateway.runs.context import RecordedRuns
from faultline_gateway.runs.method import FiguresOfEvents


class Gate(FiguresOfEvents):
    """The method of gates; `faultline_gateway.runs.method.Method` says what each function does."""

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
