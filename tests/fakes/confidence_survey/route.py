"""The made-up ``/v1/confidence-surveys``, which the test adds to the routes of the other methods."""

from __future__ import annotations

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse

from counterpose_core.contract.runs import Run
from counterpose_gateway.routes.context import Context, IdempotencyKey, Submitting
from counterpose_gateway.routes.exports import EXPORT_CONTENT, Layout, export_response
from counterpose_gateway.routes.reports import report_response
from counterpose_gateway.routes.runs import accepted, run_router
from counterpose_gateway.runs.method import ExportChoice
from counterpose_gateway.runs.submission import submit
from counterpose_gateway.runs.summaries import summary_of
from fakes.confidence_survey.contract import SurveyCreate, SurveySummary
from fakes.confidence_survey.method import CONFIDENCE_SURVEY

router = run_router(CONFIDENCE_SURVEY)


@router.post("", status_code=202)
async def create_survey(
    body: SurveyCreate, context: Submitting, response: Response, key: IdempotencyKey = None
) -> Run:
    """Plan a survey."""
    return accepted(await submit(CONFIDENCE_SURVEY, body, context, key), router, response)


@router.get("/{run_id}/summary")
def summarize_survey(run_id: str, context: Context) -> SurveySummary:
    """Return the confidences."""
    return summary_of(CONFIDENCE_SURVEY, run_id, None, context)


@router.get("/{run_id}/report", response_class=HTMLResponse)
async def report_survey(request: Request, run_id: str, context: Context) -> HTMLResponse:
    """Return the report."""
    return await report_response(request, CONFIDENCE_SURVEY, run_id, context)


@router.get("/{run_id}/export", response_class=StreamingResponse, responses=EXPORT_CONTENT)
def export_survey(run_id: str, context: Context, layout: Layout = "imagefolder") -> StreamingResponse:
    """Return the images as a tar."""
    return export_response(CONFIDENCE_SURVEY, run_id, layout, ExportChoice(), context)
