"""The report of an adversarial dataset: images that fool first, then every rate with its interval and n."""

from __future__ import annotations

from collections.abc import Callable

from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from counterpose_core.contract.runs import Run
from counterpose_gateway.images.png import GENERATED_SOURCE_TYPE
from counterpose_gateway.reports.environment import TEMPLATES
from counterpose_gateway.reports.images import Album

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
    context = {"summary": summary, "run": run, "shown": shown, "captions": captions[:_SHOWN_CAPTIONS]}
    return TEMPLATES.get_template("adversarial_dataset/report.html.j2").render(context, images=album.images)
