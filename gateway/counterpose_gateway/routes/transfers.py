"""``/v1/transfers``: whether images that fool one classifier fool others; other routes are every run's."""

from __future__ import annotations

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from counterpose_core.contract.runs import Run
from counterpose_core.contract.transfers import TransferCreate, TransferSummary
from counterpose_gateway.methods.transfer.method import TRANSFER
from counterpose_gateway.routes.context import Context, IdempotencyKey, RunId, Submitting
from counterpose_gateway.routes.reports import Part, report_response, summary_response
from counterpose_gateway.routes.runs import accepted, run_router
from counterpose_gateway.runs.submission import submit

router = run_router(TRANSFER)


@router.post("", status_code=202)
async def create_transfer(
    body: TransferCreate, context: Submitting, response: Response, key: IdempotencyKey = None
) -> Run:
    """Create a transfer of the images of an ended run; it is durable before the answer."""
    return accepted(await submit(TRANSFER, body, context, key), router, response)


@router.get("/{run_id:segment}/summary", response_model=TransferSummary)
async def summarize_transfer(request: Request, run_id: RunId, context: Context) -> Response:
    """Return the matrix of failure rates, each beside the rate on the labels alone."""
    return await summary_response(request, TRANSFER, run_id, context)


@router.get("/{run_id:segment}/report", response_class=HTMLResponse)
async def report_transfer(
    request: Request, run_id: RunId, context: Context, part: Part = "whole"
) -> HTMLResponse:
    """Return the report as one self-contained HTML document."""
    return await report_response(request, TRANSFER, run_id, context, part=part)
