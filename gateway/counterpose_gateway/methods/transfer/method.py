"""The transfer (Wiles et al., section 4.2, figure 4) as a method of the gateway."""

from __future__ import annotations

from collections.abc import Callable

from counterpose_core.contract.runs import Run
from counterpose_core.contract.transfers import TransferCell, TransferCreate, TransferItem, TransferSummary
from counterpose_core.errors import ArtifactCorrupt, ArtifactMissing, NotFound, RunNotEnded
from counterpose_gateway.images.png import GENERATED_SOURCE_TYPE
from counterpose_gateway.methods.transfer.plan import plan
from counterpose_gateway.methods.transfer.process import process
from counterpose_gateway.methods.transfer.summary import summarize
from counterpose_gateway.reports.environment import TEMPLATES
from counterpose_gateway.reports.images import Album
from counterpose_gateway.runs.method import Method, OfItems, OfSummary, verdict_alone

_THUMBNAIL = 160
LEVELS = (0.25, 0.5, 0.75)
"""Failure rates from which a cell is shaded more darkly."""


def render(summary: TransferSummary, run: Run, read_image: Callable[[str], bytes]) -> str:
    """Write the report; ``read_image`` returns an image's bytes by its reference."""
    album = Album(read_image, longest=_THUMBNAIL)
    shown = [
        (each, album.generated(each.image, run=run.id, item=each.item, source_type=GENERATED_SOURCE_TYPE))
        for each in summary.shown
    ]
    rows: dict[str, list[tuple[TransferCell, int]]] = {}
    for cell in summary.cells:
        rows.setdefault(cell.row, []).append((cell, level_of(cell)))
    context = {
        "summary": summary,
        "run": run,
        "shown": shown,
        "rows": rows,
    }
    return TEMPLATES.get_template("transfer/report.html.j2").render(context, images=album.images)


def level_of(cell: TransferCell) -> int:
    """Return how darkly a cell is shaded, from 0."""
    return sum((cell.rate.estimate or 0.0) >= level for level in LEVELS)


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
