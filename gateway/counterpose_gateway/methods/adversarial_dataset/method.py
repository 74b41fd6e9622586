"""The adversarial dataset (Wiles et al., section 4.2) as a method of the gateway."""

from __future__ import annotations

from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from counterpose_core.contract.adversarial_datasets import (
    AdversarialDatasetConfig,
    AdversarialDatasetCreate,
    AdversarialItem,
)
from counterpose_core.contract.runs import Run
from counterpose_core.errors import NotFound, RunNotEnded
from counterpose_gateway.methods.adversarial_dataset.export import export
from counterpose_gateway.methods.adversarial_dataset.plan import next_stage, plan
from counterpose_gateway.methods.adversarial_dataset.process import process
from counterpose_gateway.methods.adversarial_dataset.report import render
from counterpose_gateway.methods.adversarial_dataset.summary import summarize
from counterpose_gateway.runs.method import Method, OfItems, OfSummary, verdict_alone


def _most_items(run: Run) -> int:
    config, planned = AdversarialDatasetConfig.model_validate(run.resolved_config), run.request_counts.total
    images = config.request.images
    # After the first stage nobody knows any more how many of its items made no image.
    return (
        planned + images - config.request.baseline * len(config.labels)
        if run.stage == 1
        else max(planned, images)
    )


ADVERSARIAL_DATASET = Method(
    kind="adversarial-dataset",
    needs=("captioner", "editor", "scorer", "classifiers"),
    abilities=("draw",),
    create=AdversarialDatasetCreate,
    item=AdversarialItem,
    summary=AdversarialDatasetSummary,
    plan=plan,
    process=process,
    summarize=OfItems(summarize),
    report=OfSummary(render),
    headline=verdict_alone,
    problems=(NotFound, RunNotEnded),
    next_stage=next_stage,
    most_items=_most_items,
    export=export,
)
