"""``/v1/artifacts``: the pictures of a run, as PNG."""

from __future__ import annotations

from fastapi import APIRouter, Response

from faultline_core.types import BlobRef
from faultline_gateway.parts import Parts
from faultline_gateway.pictures import png_of

router = APIRouter(prefix="/v1/artifacts", tags=["artifacts"])

# A digest's bytes never change; private, because pictures are for whoever may ask for them.
FOR_EVER = "private, max-age=31536000, immutable"


@router.get("/{ref}.png", response_class=Response, responses={200: {"content": {"image/png": {}}}})
def get_picture(ref: BlobRef, parts: Parts) -> Response:
    """Return a stored picture; what Faultline made carries the mark of synthetic media."""
    png = png_of(ref, parts.store, parts.ledger)
    return Response(png, media_type="image/png", headers={"cache-control": FOR_EVER})
