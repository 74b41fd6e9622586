"""``/v1/stress-tests``: create them, sum them up, report; the rest is as for every run."""

from __future__ import annotations

from fastapi import Response
from fastapi.responses import HTMLResponse, StreamingResponse

from faultline_core.contract.runs import Item, Run
from faultline_core.contract.stress_tests import StressTestConfig, StressTestCreate, StressTestSummary
from faultline_gateway.exports.counterfactuals import counterfactual_card, counterfactual_records
from faultline_gateway.parts import IdempotencyKey, Parts
from faultline_gateway.routes.exports import EXPORT_CONTENT, Dropped, Layout, export_response
from faultline_gateway.routes.reports import report_response
from faultline_gateway.routes.runs import accepted, run_router
from faultline_gateway.submission import submit

router = run_router("stress-test", Item)


@router.post("", status_code=202)
async def create_stress_test(
    body: StressTestCreate, parts: Parts, response: Response, key: IdempotencyKey = None
) -> Run:
    """Plan a stress test; it is durable before this answers, and a worker takes it up."""
    return accepted(await submit(body, parts, key), router, response)


@router.get("/{run_id}/summary")
def summarize_stress_test(run_id: str, parts: Parts) -> StressTestSummary:
    """Return the figures of the run as it stands, each with its interval and n."""
    return parts.summaries.summary(run_id)


@router.get("/{run_id}/report", response_class=HTMLResponse)
def report_stress_test(run_id: str, parts: Parts) -> HTMLResponse:
    """Return the report as one self-contained HTML document."""
    return report_response(parts.summaries.report(run_id))


@router.get("/{run_id}/export", response_class=StreamingResponse, responses=EXPORT_CONTENT)
def export_stress_test(
    run_id: str, parts: Parts, layout: Layout = "imagefolder", dropped: Dropped = False
) -> StreamingResponse:
    """Return the counterfactuals that were kept, with their provenance and a card, as a tar."""
    config = StressTestConfig.model_validate(parts.ledger.run(run_id).resolved_config)
    card = counterfactual_card(parts.summaries.summary(run_id), dropped=dropped)
    records = counterfactual_records(run_id, config, parts.ledger.items(run_id), dropped=dropped)
    return export_response(run_id, records, card, layout, parts)
