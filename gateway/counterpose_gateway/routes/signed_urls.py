"""``/v1/signed-urls``: links to reports, exports and images that are read without a key until they end."""

from __future__ import annotations

from fastapi import APIRouter, Request

from counterpose_core.contract.signed_urls import SignedUrl, SignedUrlCreate
from counterpose_gateway.http.request_head import bearer
from counterpose_gateway.http.strict_json import StrictRoute
from counterpose_gateway.routes.context import Context

router = APIRouter(prefix="/v1/signed-urls", tags=["signed urls"], route_class=StrictRoute)


@router.post("")
async def sign_url(body: SignedUrlCreate, request: Request, context: Context) -> SignedUrl:
    """Sign a link with the caller's key; it ends at its time, or with the key."""
    return await context.links.sign(bearer(request.headers), body.path, body.expires_in)
