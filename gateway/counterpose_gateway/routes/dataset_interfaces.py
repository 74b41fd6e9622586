"""``/v1/dataset-interfaces``: learn a dataset's classes, then generate images of them."""

from __future__ import annotations

from counterpose_core.contract.dataset_interfaces import (
    Images,
    ImagesCreate,
)
from counterpose_gateway.methods.dataset_interface.generate import generate
from counterpose_gateway.methods.dataset_interface.method import DATASET_INTERFACE
from counterpose_gateway.routes.context import Context, RunId
from counterpose_gateway.routes.runs import run_router

router = run_router(DATASET_INTERFACE)


@router.post("/{run_id:segment}:generate")
async def generate_images(run_id: RunId, body: ImagesCreate, context: Context) -> Images:
    """Generate images of a class, as it is or under a shift."""
    return await generate(run_id, body, context)
