"""Files of the pages: stored images, small, and marked if they were made here; script and styles."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from fastapi import APIRouter, Path, Query, Request, Response

from counterpose_core.contract.recipes import IDENTITY, ImageRef, Recipe, is_recipe
from counterpose_core.errors import (
    ArtifactMissing,
    ImageTooLarge,
    ImageUndecodable,
    InvalidRequest,
    NotFound,
    UnsupportedMedia,
)
from counterpose_core.image_recipes import shown_image
from counterpose_core.images.codecs import Pixels, decode_image
from counterpose_core.types import BlobRef
from counterpose_gateway.http.in_flight import while_connected
from counterpose_gateway.images.pixels import PIXELS
from counterpose_gateway.images.png import OPERATION_SOURCE_TYPE, png_of, synthetic_xmp
from counterpose_gateway.reports.images import LONGEST_SIDE, encode_webp, shrink
from counterpose_gateway.routes.context import Context, GatewayContext
from counterpose_gateway.routes.exports import FOR_EVER
from counterpose_gateway.ui.environment import PageRoute
from counterpose_gateway.ui.static_content import static_content

router = APIRouter(prefix="/ui/images", route_class=PageRoute)

Ref = Annotated[BlobRef, Path(description="SHA-256 of the stored image.")]


@router.get("/made.webp")
async def get_made_image(
    recipe: Annotated[ImageRef, Query(description="The recipe of the image.")],
    request: Request,
    context: Context,
) -> Response:
    """Return what a recipe makes of a stored image, at the size of the pages."""
    if not is_recipe(recipe):
        raise InvalidRequest(f"{recipe!r} is no recipe of an image")
    shown = await while_connected(request, context.in_image_turn(_made_image, recipe, context))
    return Response(shown, media_type="image/webp", headers={"cache-control": FOR_EVER})


def _made_image(recipe: str, context: GatewayContext) -> bytes:
    try:
        with PIXELS.reading(context.own_blobs.get) as read:
            pixels = shrink(shown_image(recipe, read))
    except (ImageUndecodable, ImageTooLarge, UnsupportedMedia) as error:
        raise ArtifactMissing(f"the photograph of {recipe!r} is not an image") from error
    is_changed = Recipe.parsed(recipe).operation != IDENTITY
    marks = synthetic_xmp(OPERATION_SOURCE_TYPE, artifact=recipe) if is_changed else ""
    return encode_webp(pixels, marks, lossless=False)


@router.get("/{ref}.webp")
async def get_small_image(ref: Ref, request: Request, context: Context) -> Response:
    """Return an image at the size of the pages; a tiny one is enlarged, each pixel to a square."""
    shown = await while_connected(request, context.in_image_turn(_small_image, ref, context))
    return Response(shown, media_type="image/webp", headers={"cache-control": FOR_EVER})


def _small_image(ref: str, context: GatewayContext) -> bytes:
    try:
        with PIXELS.reading(context.own_blobs.get) as read:
            pixels = shrink(decode_image(read(ref)))
    except (ImageUndecodable, ImageTooLarge, UnsupportedMedia) as error:
        raise ArtifactMissing(f"the artifact {ref!r} is not an image; check the digest") from error
    marks = "" if context.ledger.datasets.is_source_image(ref) else synthetic_xmp(artifact=ref)
    is_tiny = max(pixels.shape[:2]) <= LONGEST_SIDE // 2
    return encode_webp(_enlarged(pixels) if is_tiny else pixels, marks, lossless=is_tiny)


@router.get("/{ref}.png")
async def get_image(ref: Ref, request: Request, context: Context) -> Response:
    """Return an image as it is stored."""
    making = context.in_image_turn(png_of, ref, context.own_blobs, context.ledger.datasets)
    png = await while_connected(request, making)
    return Response(png, media_type="image/png", headers={"cache-control": FOR_EVER})


def _enlarged(pixels: Pixels) -> Pixels:
    times = LONGEST_SIDE // max(pixels.shape[:2])
    return np.repeat(np.repeat(pixels, times, axis=0), times, axis=1)


static = APIRouter(prefix="/ui/static", route_class=PageRoute)

# With its digest in the address a file never changes.
_BY_DIGEST = "public, max-age=31536000, immutable"


@static.get("/{name}")
def get_static(name: str) -> Response:
    """Return a file of the pages."""
    if name not in static_content():
        raise NotFound(f"the pages have no file {name[:80]!r}")
    data, media_type = static_content()[name]
    return Response(data, media_type=media_type, headers={"cache-control": _BY_DIGEST})
