"""``/v1/gates``: candidates against the incumbent on frozen counterfactuals; other routes are every run's."""

from __future__ import annotations

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from counterpose_core.contract.gates import GateCreate, GateSummary, RegressionSet, RegressionSetOf
from counterpose_core.contract.runs import Run
from counterpose_gateway.methods.gate.method import GATE
from counterpose_gateway.methods.gate.regression_set import freeze
from counterpose_gateway.routes.context import Context, IdempotencyKey, RunId, Submitting
from counterpose_gateway.routes.reports import Part, report_response, summary_response
from counterpose_gateway.routes.runs import accepted, run_router
from counterpose_gateway.runs.submission import submit

router = run_router(GATE)


@router.post("", status_code=202)
async def create_gate(
    body: GateCreate, context: Submitting, response: Response, key: IdempotencyKey = None
) -> Run:
    """Create a gate on the counterfactuals of an ended run; it is durable before the answer."""
    return accepted(await submit(GATE, body, context, key), router, response)


@router.post(":freeze")
async def freeze_regression_set(body: RegressionSetOf, context: Context) -> RegressionSet:
    """Return the counterfactuals of an ended run as a regression set, by their digest; stores nothing."""
    return (await freeze(body.baseline, context)).told


@router.get("/{run_id:segment}/summary", response_model=GateSummary)
async def summarize_gate(request: Request, run_id: RunId, context: Context) -> Response:
    """Return the outcome, and the regression of each candidate under each change."""
    return await summary_response(request, GATE, run_id, context)


@router.get("/{run_id:segment}/report", response_class=HTMLResponse)
async def report_gate(
    request: Request, run_id: RunId, context: Context, part: Part = "whole"
) -> HTMLResponse:
    """Return the report as one self-contained HTML document."""
    return await report_response(request, GATE, run_id, context, part=part)
