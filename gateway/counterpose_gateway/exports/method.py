"""The export of a run, for every method whose images form a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterpose_gateway.exports.export import Export, ExportLayout, write_export
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.method import AnyMethod, ExportChoice
from counterpose_gateway.summaries.summaries import summary_of


def export_run(
    method: AnyMethod,
    run_id: str,
    view: Any,
    choice: ExportChoice,
    layout: ExportLayout,
    context: RunContext,
    target: Path,
) -> Export:
    """Write the images of a run into the new folder ``target``.

    Args:
        method: The method of the run, which can export.
        run_id: The run.
        view: The reader's view of the summary, whose thresholds decide which images were kept.
        choice: The images to export in addition to the kept ones.
        layout: The layout of the folder.
        context: The stores of the run's items and images.
        target: The folder, which must not exist or be empty.

    Raises:
        NotFound: the run does not exist.
        DatasetEmpty: the run has no image to export.
        StorageError: an image is missing or damaged, or the disk is full.
    """
    assert method.export is not None  # others have no such route
    summary = summary_of(method, run_id, view, context)
    card, records = method.export(summary, context.ledger.items.of(run_id, method.item), choice)
    return write_export(
        records, target, layout=layout, store=context.store, card=card, credentials=context.credentials
    )
