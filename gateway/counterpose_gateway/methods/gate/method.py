"""The gate as a method of the gateway."""

from __future__ import annotations

from counterpose_core.contract.gates import GateItem
from counterpose_gateway.methods.gate.plan import plan
from counterpose_gateway.methods.gate.process import process
from counterpose_gateway.methods.gate.report import render
from counterpose_gateway.methods.gate.summary import summarize
from counterpose_gateway.runs.method import Method, OfItems, OfSummary, verdict_alone

GATE = Method(
    kind="gate",
    title="Gate",
    needs=("classifiers",),
    item=GateItem,
    plan=plan,
    process=process,
    summarize=OfItems(summarize),
    report=OfSummary(render),
    headline=verdict_alone,
)
