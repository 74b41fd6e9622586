"""The transfer (Wiles et al., section 4.2, figure 4) as a method of the gateway."""

from __future__ import annotations

from counterpose_core.contract.transfers import TransferCreate, TransferItem, TransferSummary
from counterpose_core.errors import ArtifactCorrupt, ArtifactMissing, NotFound, RunNotEnded
from counterpose_gateway.methods.transfer.plan import plan
from counterpose_gateway.methods.transfer.process import process
from counterpose_gateway.methods.transfer.report import render
from counterpose_gateway.methods.transfer.summary import summarize
from counterpose_gateway.runs.method import Method, OfItems, OfSummary, verdict_alone

TRANSFER = Method(
    kind="transfer",
    needs=("classifiers",),
    create=TransferCreate,
    item=TransferItem,
    summary=TransferSummary,
    plan=plan,
    process=process,
    summarize=OfItems(summarize),
    report=OfSummary(render),
    headline=verdict_alone,
    problems=(ArtifactCorrupt, ArtifactMissing, NotFound, RunNotEnded),
)
