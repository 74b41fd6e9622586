"""``/v1/<kind>s/{id}/export``: a run's images as a dataset for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import Query
from fastapi.responses import StreamingResponse

from faultline_gateway.exports import ExportLayout
from faultline_gateway.exports.archive import MEDIA_TYPE, archived
from faultline_gateway.exports.method import ExportChoice, ExportingMethod, export_run
from faultline_gateway.routes.context import GatewayContext

Layout = Annotated[ExportLayout, Query(description="How the images lie in their folder.")]
Dropped = Annotated[bool, Query(description="Also images that a filter dropped.")]

EXPORT_CONTENT: dict[int | str, dict[str, Any]] = {200: {"content": {MEDIA_TYPE: {}}}}


def export_response(
    method: ExportingMethod[Any, Any, Any, Any],
    run_id: str,
    layout: ExportLayout,
    choice: ExportChoice,
    context: GatewayContext,
    view: Any = None,
) -> StreamingResponse:
    """Write the export to disk and answer it as a tar, whose last member is the dataset card.

    Args:
        method: The method of the run.
        run_id: The run.
        layout: How the images lie in their folder.
        choice: Which images go along with those that were kept.
        context: Where the run's items and images lie.
        view: What the reader chose of the summary, which says what was kept.
    """

    def write(folder: Path) -> None:
        export_run(method, run_id, view, choice, layout, context, folder)

    name = f"faultline-{run_id}-{layout}.tar"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(archived(write), media_type=MEDIA_TYPE, headers=headers)
