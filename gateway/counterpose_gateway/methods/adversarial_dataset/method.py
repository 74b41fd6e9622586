"""The adversarial dataset (Wiles et al., section 4.2) as a method of the gateway."""

from __future__ import annotations

from collections.abc import Callable

from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from counterpose_core.contract.adversarial_datasets import (
    AdversarialDatasetConfig,
    AdversarialDatasetCreate,
    AdversarialItem,
)
from counterpose_core.contract.runs import Run
from counterpose_core.errors import NotFound, RunNotEnded
from counterpose_gateway.images.png import GENERATED_SOURCE_TYPE
from counterpose_gateway.methods.adversarial_dataset.export import export
from counterpose_gateway.methods.adversarial_dataset.plan import next_stage, plan
from counterpose_gateway.methods.adversarial_dataset.process import process
from counterpose_gateway.methods.adversarial_dataset.summary import summarize
from counterpose_gateway.reports.environment import TEMPLATES
from counterpose_gateway.reports.images import Album
from counterpose_gateway.runs.method import Method, OfItems, OfSummary, verdict_alone

_THUMBNAIL = 160
_SHOWN_CAPTIONS = 200


def render(summary: AdversarialDatasetSummary, run: Run, read_image: Callable[[str], bytes]) -> str:
    """Write the report; ``read_image`` returns an image's bytes by its reference."""
    album = Album(read_image, longest=_THUMBNAIL)
    shown = [
        (each, album.generated(each.image, run=run.id, item=each.item, source_type=GENERATED_SOURCE_TYPE))
        for each in summary.shown
    ]
    captions = sorted(summary.captions, key=lambda each: (-each.kept, each.number))
    context = {
        "summary": summary,
        "run": run,
        "shown": shown,
        "captions": captions[:_SHOWN_CAPTIONS],
    }
    return TEMPLATES.get_template("adversarial_dataset/report.html.j2").render(context, images=album.images)


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
