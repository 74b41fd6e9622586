"""The gate as a method of the gateway."""

from __future__ import annotations

from counterpose_core.contract.gates import GateCreate, GateItem, GateSummary
from counterpose_core.errors import ArtifactCorrupt, ArtifactMissing, NotFound, RunNotEnded
from counterpose_gateway.methods.gate.plan import plan
from counterpose_gateway.methods.gate.process import process
from counterpose_gateway.methods.gate.report import render
from counterpose_gateway.methods.gate.summary import summarize
from counterpose_gateway.runs.method import Method, OfItems, OfSummary, verdict_alone

GATE = Method(
    kind="gate",
    needs=("classifiers",),
    create=GateCreate,
    item=GateItem,
    summary=GateSummary,
    plan=plan,
    process=process,
    summarize=OfItems(summarize),
    report=OfSummary(render),
    headline=verdict_alone,
    problems=(ArtifactCorrupt, ArtifactMissing, NotFound, RunNotEnded),
)
