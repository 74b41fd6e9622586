"""What only dataset interfaces have: images of the classes that they learned."""

from __future__ import annotations

from fastapi import APIRouter

from counterpose_core.contract.dataset_interfaces import (
    Images,
    ImagesCreate,
)
from counterpose_gateway.http.strict_json import StrictRoute
from counterpose_gateway.methods.dataset_interface.generate import generate
from counterpose_gateway.routes.context import Context, RunId
from counterpose_gateway.routes.creation import only

router = APIRouter(prefix="/v1", tags=["dataset interfaces"], route_class=StrictRoute)


@router.post("/runs/{run_id:segment}/generate", dependencies=[only("dataset-interface")])
async def generate_images(run_id: RunId, body: ImagesCreate, context: Context) -> Images:
    """Generate images of a class, as it is or under a shift."""
    return await generate(run_id, body, context)
