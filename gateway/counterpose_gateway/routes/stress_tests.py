"""``/v1/stress-tests``: create them, prove findings, sum up, report; other routes are those of every run."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse

from counterpose_core.contract.proofs import FindingHistory, ProofCreate
from counterpose_core.contract.runs import Run
from counterpose_core.contract.stress_test_estimates import StressTestEstimate, StressTestQuestion
from counterpose_core.contract.stress_tests import StressTestCreate, StressTestSummary
from counterpose_gateway.methods.stress_test.estimate import estimate
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.methods.stress_test.proof import finding_history, start_proof
from counterpose_gateway.routes.context import IN_DIGITS, Context, IdempotencyKey, RunId, Submitting
from counterpose_gateway.routes.exports import EXPORT_CONTENT, Dropped, Layout, export_response
from counterpose_gateway.routes.reports import Part, report_response, summary_response
from counterpose_gateway.routes.runs import accepted, run_router
from counterpose_gateway.routes.thresholds import JudgedBy
from counterpose_gateway.runs.method import ExportChoice
from counterpose_gateway.runs.submission import require_services, submit

router = run_router(STRESS_TEST)


FindingNumber = Annotated[int, Path(ge=1, description="Number of the finding in the run, from 1."), IN_DIGITS]


@router.post("", status_code=202)
async def create_stress_test(
    body: StressTestCreate, context: Submitting, response: Response, key: IdempotencyKey = None
) -> Run:
    """Create a stress test; the run is durable before the answer, and a worker takes it up."""
    return accepted(await submit(STRESS_TEST, body, context, key), router, response)


@router.post("/{run_id:segment}/findings/{number:segment}:prove", status_code=202)
async def prove_finding(
    run_id: RunId,
    number: FindingNumber,
    body: ProofCreate,
    context: Submitting,
    response: Response,
    key: IdempotencyKey = None,
) -> Run:
    """Create a child run that makes more pairs for one finding; the run itself is never reopened."""
    return accepted(await start_proof(run_id, number, body, context, key), router, response)


@router.get("/{run_id:segment}/findings/{number:segment}")
def get_finding(run_id: RunId, number: FindingNumber, context: Context) -> FindingHistory:
    """Return a finding as its run tells it, and as all runs that prove it tell it together."""
    return finding_history(run_id, number, context)


@router.post(":estimate")
async def estimate_stress_test(body: StressTestQuestion, context: Context) -> StressTestEstimate:
    """Say what a stress test would take and could prove, or refuse it as its run would; nothing is created.

    Each classifier is shown up to 64 of the images, and the suite's models the first eight.
    """
    require_services(STRESS_TEST, context.suite)
    return await estimate(body, context)


@router.get("/{run_id:segment}/summary", response_model=StressTestSummary)
async def summarize_stress_test(
    request: Request, run_id: RunId, context: Context, thresholds: JudgedBy
) -> Response:
    """Return the figures of the run as it stands; other thresholds judge the recorded scores again."""
    return await summary_response(request, STRESS_TEST, run_id, context, thresholds)


@router.get("/{run_id:segment}/report", response_class=HTMLResponse)
async def report_stress_test(
    request: Request, run_id: RunId, context: Context, thresholds: JudgedBy, part: Part = "whole"
) -> HTMLResponse:
    """Return the report as one self-contained HTML document."""
    return await report_response(request, STRESS_TEST, run_id, context, thresholds, part=part)


@router.get("/{run_id:segment}/export", response_class=StreamingResponse, responses=EXPORT_CONTENT)
def export_stress_test(
    run_id: RunId,
    context: Context,
    thresholds: JudgedBy,
    layout: Layout = "imagefolder",
    dropped: Dropped = False,
) -> StreamingResponse:
    """Export the kept counterfactuals with their provenance and a card, as a tar archive."""
    return export_response(STRESS_TEST, run_id, layout, ExportChoice(dropped=dropped), context, thresholds)
