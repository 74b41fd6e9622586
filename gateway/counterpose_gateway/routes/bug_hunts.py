"""``/v1/bug-hunts``: find failures that nobody asked about; other routes are those of every run."""

from __future__ import annotations

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from counterpose_core.contract.bug_hunt_estimates import BugHuntEstimate, BugHuntQuestion
from counterpose_core.contract.bug_hunt_summary import BugHuntSummary
from counterpose_core.contract.bug_hunts import BugHuntCreate, DescriptionsCreate
from counterpose_core.contract.runs import Run
from counterpose_gateway.methods.bug_hunt.dry_run import dry_run
from counterpose_gateway.methods.bug_hunt.measurement import start_measurement
from counterpose_gateway.methods.bug_hunt.method import BUG_HUNT
from counterpose_gateway.routes.context import Context, IdempotencyKey, RunId, Submitting
from counterpose_gateway.routes.reports import Part, report_response, summary_response
from counterpose_gateway.routes.runs import accepted, run_router
from counterpose_gateway.runs.submission import require_services, submit

router = run_router(BUG_HUNT)


@router.post("", status_code=202)
async def create_bug_hunt(
    body: BugHuntCreate, context: Submitting, response: Response, key: IdempotencyKey = None
) -> Run:
    """Create a bug hunt; the run is durable before the answer, and a worker takes it up."""
    return accepted(await submit(BUG_HUNT, body, context, key), router, response)


@router.post(":estimate")
async def estimate_bug_hunt(body: BugHuntQuestion, context: Context) -> BugHuntEstimate:
    """Return what such a hunt would take and the smallest rates that it could find, or refuse it as its run.

    Nothing is created; one image of each label is drawn, to see that the generator knows its words.
    """
    require_services(BUG_HUNT, context.suite)
    return await dry_run(body, context)


@router.post("/{run_id:segment}/descriptions", status_code=202)
async def measure_descriptions(
    run_id: RunId,
    body: DescriptionsCreate,
    context: Submitting,
    response: Response,
    key: IdempotencyKey = None,
) -> Run:
    """Create a child run that measures descriptions of your own on fresh images, beside the label alone."""
    return accepted(await start_measurement(run_id, body, context, key), router, response)


@router.get("/{run_id:segment}/summary", response_model=BugHuntSummary)
async def summarize_bug_hunt(request: Request, run_id: RunId, context: Context) -> Response:
    """Return baseline rates, the descriptions that were tried, and the bugs that held-out images prove."""
    return await summary_response(request, BUG_HUNT, run_id, context)


@router.get("/{run_id:segment}/report", response_class=HTMLResponse)
async def report_bug_hunt(
    request: Request, run_id: RunId, context: Context, part: Part = "whole"
) -> HTMLResponse:
    """Return the report on the bugs as one self-contained HTML document."""
    return await report_response(request, BUG_HUNT, run_id, context, part=part)
