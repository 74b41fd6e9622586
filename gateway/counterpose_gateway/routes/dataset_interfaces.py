"""``/v1/dataset-interfaces``: learn a dataset's classes, then generate images of them."""

from __future__ import annotations

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from counterpose_core.contract.dataset_interfaces import (
    DatasetInterfaceCreate,
    DatasetInterfaceSummary,
    Images,
    ImagesCreate,
)
from counterpose_core.contract.runs import Run
from counterpose_gateway.methods.dataset_interface.generate import generate
from counterpose_gateway.methods.dataset_interface.method import DATASET_INTERFACE
from counterpose_gateway.routes.context import Context, IdempotencyKey, RunId, Submitting
from counterpose_gateway.routes.reports import Part, report_response, summary_response
from counterpose_gateway.routes.runs import accepted, run_router
from counterpose_gateway.runs.submission import submit

router = run_router(DATASET_INTERFACE)


@router.post("", status_code=202)
async def create_dataset_interface(
    body: DatasetInterfaceCreate, context: Submitting, response: Response, key: IdempotencyKey = None
) -> Run:
    """Create a dataset interface; the run is durable before the answer, and a worker takes it up."""
    return accepted(await submit(DATASET_INTERFACE, body, context, key), router, response)


@router.post("/{run_id:segment}:generate")
async def generate_images(run_id: RunId, body: ImagesCreate, context: Context) -> Images:
    """Generate images of a class, as it is or under a shift."""
    return await generate(run_id, body, context)


@router.get("/{run_id:segment}/summary", response_model=DatasetInterfaceSummary)
async def summarize_dataset_interface(request: Request, run_id: RunId, context: Context) -> Response:
    """Return the learned tokens, how well each resembles its class, and why classes are missing."""
    return await summary_response(request, DATASET_INTERFACE, run_id, context)


@router.get("/{run_id:segment}/report", response_class=HTMLResponse)
async def report_dataset_interface(
    request: Request, run_id: RunId, context: Context, part: Part = "whole"
) -> HTMLResponse:
    """Return the report on each class as one self-contained HTML document."""
    return await report_response(request, DATASET_INTERFACE, run_id, context, part=part)
