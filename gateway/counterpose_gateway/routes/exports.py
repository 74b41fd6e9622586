"""The images of a run: its export for other tools, one of them as PNG, and links that need no key."""

from __future__ import annotations

import pathlib
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from counterpose_core.contract.signed_urls import SignedUrl, SignedUrlCreate
from counterpose_core.types import BlobRef
from counterpose_gateway.exports.export import MEDIA_TYPE, ExportLayout, archived, write_export
from counterpose_gateway.http.in_flight import while_connected
from counterpose_gateway.http.request_head import bearer
from counterpose_gateway.http.strict_json import StrictRoute
from counterpose_gateway.images.png import png_of
from counterpose_gateway.routes.context import Context, GatewayContext
from counterpose_gateway.runs.method import AnyMethod, ExportChoice
from counterpose_gateway.summaries.summaries import summary_of

Layout = Annotated[ExportLayout, Query(description="Layout of the images in the archive.")]
Dropped = Annotated[bool, Query(description="Also images that a filter dropped.")]

router = APIRouter(prefix="/v1/artifacts", tags=["artifacts"])
links = APIRouter(prefix="/v1/signed-urls", tags=["signed urls"], route_class=StrictRoute)

# A digest's bytes never change; private, because images are only for authorised clients.
FOR_EVER = "private, max-age=31536000, immutable"
EXPORT_CONTENT: dict[int | str, dict[str, Any]] = {200: {"content": {MEDIA_TYPE: {}}}}


def export_response(
    method: AnyMethod,
    run_id: str,
    layout: ExportLayout,
    choice: ExportChoice,
    context: GatewayContext,
    view: Any,
) -> StreamingResponse:
    """Write the export to disk and answer it as a tar, whose last member is the dataset card.

    Args:
        method: The method of the run, which can export.
        run_id: The run.
        layout: The layout of the images in the archive.
        choice: Which images to export in addition to those that were kept.
        context: The stores of the run's items and images.
        view: The reader's choice for the summary, which decides what was kept.

    Raises:
        NotFound: the run does not exist.
        DatasetEmpty: the run has no image to export.
        RateLimited: as many exports as may be are being sent.
        StorageError: an image is missing or damaged, or the disk is full.
    """
    export = method.export
    assert export is not None  # its route has looked

    def write(folder: pathlib.Path) -> None:
        summary = summary_of(method, run_id, view, context)
        card, records = export(summary, context.ledger.items.of(run_id, method.item), choice)
        write_export(
            records, folder, layout=layout, store=context.store, card=card, credentials=context.credentials
        )

    name = f"counterpose-{run_id}-{layout}.tar"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    pieces = archived(write, context.room.exports.held(context.tenant))
    return StreamingResponse(pieces, media_type=MEDIA_TYPE, headers=headers)


@router.get("/{ref}.png", response_class=Response, responses={200: {"content": {"image/png": {}}}})
async def get_image(
    ref: Annotated[BlobRef, Path(description="SHA-256 of the stored image.")],
    request: Request,
    context: Context,
) -> Response:
    """Return a stored image as PNG; generated images are marked as synthetic in their metadata."""
    making = context.in_image_turn(png_of, ref, context.own_blobs, context.ledger.datasets)
    png = await while_connected(request, making)
    return Response(png, media_type="image/png", headers={"cache-control": FOR_EVER})


@links.post("")
async def sign_url(body: SignedUrlCreate, request: Request, context: Context) -> SignedUrl:
    """Sign a link with the caller's key; it ends at its time, or with the key."""
    return await context.links.sign(bearer(request.headers), body.path, body.expires_in)
