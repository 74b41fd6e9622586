"""The report of a transfer: the matrix, shaded by the failure rate, and images with every answer."""

from __future__ import annotations

from collections.abc import Callable

from counterpose_core.contract.runs import Run
from counterpose_core.contract.transfers import TransferCell, TransferSummary
from counterpose_gateway.images.png import GENERATED_SOURCE_TYPE
from counterpose_gateway.reports.environment import TEMPLATES
from counterpose_gateway.reports.images import Album

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
    context = {"summary": summary, "run": run, "shown": shown, "rows": rows}
    return TEMPLATES.get_template("transfer/report.html.j2").render(context, images=album.images)


def level_of(cell: TransferCell) -> int:
    """Return how darkly a cell is shaded, from 0."""
    return sum((cell.rate.estimate or 0.0) >= level for level in LEVELS)
