"""``/v1/artifacts``: the images of a run, as PNG."""

from __future__ import annotations

from fastapi import APIRouter, Response

from faultline_core.types import BlobRef
from faultline_gateway.images.png import png_of
from faultline_gateway.routes.context import Context

router = APIRouter(prefix="/v1/artifacts", tags=["artifacts"])

# A digest's bytes never change; private, because images are only for authorised clients.
FOR_EVER = "private, max-age=31536000, immutable"


@router.get("/{ref}.png", response_class=Response, responses={200: {"content": {"image/png": {}}}})
def get_image(ref: BlobRef, context: Context) -> Response:
    """Return a stored image as PNG; generated images are marked as synthetic in their metadata."""
    png = png_of(ref, context.store, context.ledger)
    return Response(png, media_type="image/png", headers={"cache-control": FOR_EVER})
