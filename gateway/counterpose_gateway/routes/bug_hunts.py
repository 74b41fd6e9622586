"""What only bug hunts have: estimates, and descriptions of your own."""

from __future__ import annotations

from fastapi import APIRouter, Response

from counterpose_core.contract.bug_hunt_estimates import BugHuntEstimate, BugHuntQuestion
from counterpose_core.contract.bug_hunts import DescriptionsCreate
from counterpose_core.contract.runs import Run
from counterpose_gateway.http.strict_json import StrictRoute
from counterpose_gateway.methods.bug_hunt.dry_run import dry_run
from counterpose_gateway.methods.bug_hunt.measurement import start_measurement
from counterpose_gateway.methods.bug_hunt.method import BUG_HUNT
from counterpose_gateway.routes.context import Context, IdempotencyKey, RunId, Submitting
from counterpose_gateway.routes.creation import accepted, only
from counterpose_gateway.runs.submission import require_services

router = APIRouter(prefix="/v1", tags=["bug hunts"], route_class=StrictRoute)


@router.post("/bug-hunts/estimate")
async def estimate_bug_hunt(body: BugHuntQuestion, context: Context) -> BugHuntEstimate:
    """Return what such a hunt would take and the smallest rates that it could find, or refuse it as its run.

    Nothing is created; one image of each label is drawn, to see that the generator knows its words.
    """
    require_services(BUG_HUNT, context.suite)
    return await dry_run(body, context)


@router.post("/runs/{run_id:segment}/descriptions", status_code=202, dependencies=[only("bug-hunt")])
async def measure_descriptions(
    run_id: RunId,
    body: DescriptionsCreate,
    context: Submitting,
    response: Response,
    key: IdempotencyKey = None,
) -> Run:
    """Create a child run that measures descriptions of your own on fresh images, beside the label alone."""
    return accepted(await start_measurement(run_id, body, context, key), response)
