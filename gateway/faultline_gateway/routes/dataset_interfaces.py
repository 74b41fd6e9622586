"""``/v1/dataset-interfaces``: learn a dataset's classes, then show them changed."""

from __future__ import annotations

from fastapi import Response
from fastapi.responses import HTMLResponse

from faultline_core.contract.dataset_interfaces import (
    DatasetInterfaceCreate,
    DatasetInterfaceSummary,
    Pictures,
    PicturesCreate,
    TokenItem,
)
from faultline_core.contract.runs import Run
from faultline_gateway.interface_pictures import generate
from faultline_gateway.parts import IdempotencyKey, Parts
from faultline_gateway.reports.interface_report import render_interface
from faultline_gateway.routes.reports import report_response
from faultline_gateway.routes.runs import accepted, run_router
from faultline_gateway.submission import submit_interface
from faultline_gateway.workflows.dataset_interface import summarize_interface

router = run_router("dataset-interface", TokenItem)


@router.post("", status_code=202)
async def create_dataset_interface(
    body: DatasetInterfaceCreate, parts: Parts, response: Response, key: IdempotencyKey = None
) -> Run:
    """Plan a dataset interface; it is durable before this answers, and a worker takes it up."""
    return accepted(await submit_interface(body, parts, key), router, response)


@router.post("/{run_id}:generate")
async def generate_pictures(run_id: str, body: PicturesCreate, parts: Parts) -> Pictures:
    """Make pictures of a class, as it is or under a shift in any words."""
    return await generate(run_id, body, parts)


@router.get("/{run_id}/summary")
def summarize_dataset_interface(run_id: str, parts: Parts) -> DatasetInterfaceSummary:
    """Return the tokens that there are, how they came out, and which classes are missing."""
    return summarize_interface(parts.ledger.run(run_id), parts.ledger.items_of(run_id, TokenItem))


@router.get("/{run_id}/report", response_class=HTMLResponse)
def report_dataset_interface(run_id: str, parts: Parts) -> HTMLResponse:
    """Return what was learned of each class as one self-contained HTML document."""
    run, items = parts.ledger.run(run_id), list(parts.ledger.items_of(run_id, TokenItem))
    return report_response(render_interface(summarize_interface(run, items), run, items, parts.store.get))
