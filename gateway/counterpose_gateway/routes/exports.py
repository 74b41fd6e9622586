"""The images of a run: ``/v1/runs/{id}/export`` for other tools, and ``/v1/artifacts`` for one as PNG."""

from __future__ import annotations

import pathlib
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import StreamingResponse

from counterpose_core.types import BlobRef
from counterpose_gateway.exports import ExportLayout
from counterpose_gateway.exports.archive import MEDIA_TYPE, archived
from counterpose_gateway.exports.method import export_run
from counterpose_gateway.images.png import png_of
from counterpose_gateway.routes.context import Context, GatewayContext
from counterpose_gateway.runs.method import AnyMethod, ExportChoice

Layout = Annotated[ExportLayout, Query(description="Layout of the images in the archive.")]
Dropped = Annotated[bool, Query(description="Also images that a filter dropped.")]

router = APIRouter(prefix="/v1/artifacts", tags=["artifacts"])

# A digest's bytes never change; private, because images are only for authorised clients.
FOR_EVER = "private, max-age=31536000, immutable"
EXPORT_CONTENT: dict[int | str, dict[str, Any]] = {200: {"content": {MEDIA_TYPE: {}}}}


def export_response(
    method: AnyMethod,
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
        layout: The layout of the images in the archive.
        choice: Which images to export in addition to those that were kept.
        context: The stores of the run's items and images.
        view: The reader's choice for the summary, which decides what was kept.
    """

    def write(folder: pathlib.Path) -> None:
        export_run(method, run_id, view, choice, layout, context, folder)

    name = f"counterpose-{run_id}-{layout}.tar"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(archived(write), media_type=MEDIA_TYPE, headers=headers)


@router.get("/{ref}.png", response_class=Response, responses={200: {"content": {"image/png": {}}}})
def get_image(
    ref: Annotated[BlobRef, Path(description="SHA-256 of the stored image.")], context: Context
) -> Response:
    """Return a stored image as PNG; generated images are marked as synthetic in their metadata."""
    png = png_of(ref, context.own_blobs, context.ledger.datasets)
    return Response(png, media_type="image/png", headers={"cache-control": FOR_EVER})
