"""What only stress tests have: estimates, findings and their proofs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from counterpose_core.contract.proofs import FindingHistory, ProofCreate
from counterpose_core.contract.runs import Run
from counterpose_core.contract.stress_test_estimates import StressTestEstimate, StressTestQuestion
from counterpose_gateway.http.strict_json import StrictRoute
from counterpose_gateway.methods.stress_test.estimate import estimate
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.methods.stress_test.proof import finding_history, start_proof
from counterpose_gateway.routes.context import IN_DIGITS, Context, IdempotencyKey, RunId, Submitting
from counterpose_gateway.routes.creation import accepted, only
from counterpose_gateway.runs.submission import require_services

router = APIRouter(prefix="/v1", tags=["stress tests"], route_class=StrictRoute)

FindingNumber = Annotated[int, Path(ge=1, description="Number of the finding in the run, from 1."), IN_DIGITS]


@router.post(
    "/runs/{run_id:segment}/findings/{number}/prove", status_code=202, dependencies=[only("stress-test")]
)
async def prove_finding(
    run_id: RunId,
    number: FindingNumber,
    body: ProofCreate,
    context: Submitting,
    response: Response,
    key: IdempotencyKey = None,
) -> Run:
    """Create a child run that makes more pairs for one finding; the run itself is never reopened."""
    return accepted(await start_proof(run_id, number, body, context, key), response)


@router.get("/runs/{run_id:segment}/findings/{number}", dependencies=[only("stress-test")])
def get_finding(run_id: RunId, number: FindingNumber, context: Context) -> FindingHistory:
    """Return a finding as its run tells it, and as all runs that prove it tell it together."""
    return finding_history(run_id, number, context)


@router.post("/stress-tests/estimate")
async def estimate_stress_test(body: StressTestQuestion, context: Context) -> StressTestEstimate:
    """Say what a stress test would take and could prove, or refuse it as its run would; nothing is created.

    Each classifier is shown up to 64 of the images, and the suite's models the first eight.
    """
    require_services(STRESS_TEST, context.suite)
    return await estimate(body, context)
