"""The adversarial dataset (Wiles et al., section 4.2) as a method of the gateway."""

from __future__ import annotations

from counterpose_core.contract.adversarial_datasets import AdversarialItem
from counterpose_gateway.methods.adversarial_dataset.export import export
from counterpose_gateway.methods.adversarial_dataset.plan import plan
from counterpose_gateway.methods.adversarial_dataset.process import process
from counterpose_gateway.methods.adversarial_dataset.report import render
from counterpose_gateway.methods.adversarial_dataset.stages import next_stage
from counterpose_gateway.methods.adversarial_dataset.summary import summarize
from counterpose_gateway.runs.method import Method, OfItems, OfSummary, verdict_alone

ADVERSARIAL_DATASET = Method(
    kind="adversarial-dataset",
    title="Adversarial dataset",
    item=AdversarialItem,
    plan=plan,
    process=process,
    summarize=OfItems(summarize),
    report=OfSummary(render),
    headline=verdict_alone,
    next_stage=next_stage,
    export=export,
)
