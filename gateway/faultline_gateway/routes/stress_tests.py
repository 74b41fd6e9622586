"""``/v1/stress-tests``: create, follow, stop and read them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse
from sse_starlette import EventSourceResponse

from faultline_core.contract.runs import ItemPage, Run, RunList
from faultline_core.contract.stress_tests import StressTestCreate, StressTestSummary
from faultline_gateway.conditional import tagged
from faultline_gateway.parts import After, IdempotencyKey, PageSize, Parts
from faultline_gateway.progress import LONGEST_WAIT_SECONDS, event_response, first_event_id, wait_for_end
from faultline_gateway.results import MEDIA_TYPE, result_lines
from faultline_gateway.strict_json import StrictRoute
from faultline_gateway.submission import submit

router = APIRouter(prefix="/v1/stress-tests", tags=["stress tests"], route_class=StrictRoute)

# The report opens on our own origin: whatever slipped through the escaping must not run there.
REPORT_HEADERS = {
    "content-security-policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}
RUN_RETRY_AFTER = "2"
WAIT = Query(alias="timeout", ge=0, le=LONGEST_WAIT_SECONDS)


@router.post("", status_code=202)
async def create_stress_test(
    body: StressTestCreate, parts: Parts, response: Response, key: IdempotencyKey = None
) -> Run:
    """Plan a stress test; it is durable before this answers, and a worker takes it up."""
    run = await submit(body, parts, key)
    response.headers["location"] = f"{router.prefix}/{run.id}"
    response.headers["retry-after"] = RUN_RETRY_AFTER
    return run


@router.get("")
def list_stress_tests(parts: Parts, after: After = None, limit: PageSize = 50) -> RunList:
    """Page through the runs, newest first."""
    return parts.ledger.run_list(after=after, limit=limit)


# The verbs come before the bare id, which would take "id:wait" for an id.
@router.get("/{run_id}:wait")
async def wait_for_stress_test(run_id: str, parts: Parts, seconds: Annotated[float, WAIT] = 25.0) -> Run:
    """Answer when the run has ended or the time is up, whichever comes first."""
    return await wait_for_end(parts.ledger, run_id, seconds)


@router.post("/{run_id}:cancel")
def cancel_stress_test(run_id: str, parts: Parts) -> Run:
    """Stop the run; what is finished is kept."""
    return parts.ledger.cancel(run_id)


@router.post("/{run_id}:resume")
def resume_stress_test(run_id: str, parts: Parts) -> Run:
    """Take failed and cancelled items up again."""
    return parts.ledger.resume(run_id)


@router.get("/{run_id}", response_model=Run)
def get_stress_test(run_id: str, parts: Parts, request: Request) -> Response:
    """Describe a run; with If-None-Match only when it has changed."""
    return tagged(parts.ledger.run(run_id), request)


@router.get(
    "/{run_id}/events",
    response_class=EventSourceResponse,
    responses={200: {"content": {"text/event-stream": {}}}},
)
def follow_stress_test(
    run_id: str, parts: Parts, last_event_id: Annotated[int | None, Header(ge=0)] = None
) -> EventSourceResponse:
    """Stream progress as server-sent events, from after Last-Event-ID or from now on."""
    after = first_event_id(parts.ledger, run_id, last_event_id)
    return event_response(parts.ledger, run_id, after=after)


@router.get("/{run_id}/items")
def list_items(run_id: str, parts: Parts, after: After = None, limit: PageSize = 100) -> ItemPage:
    """Page through the items in planned order; pages never repeat or skip while the run goes on."""
    return parts.ledger.item_page(run_id, after=after, limit=limit)


@router.get("/{run_id}/results", response_class=StreamingResponse)
def get_results(
    run_id: str, parts: Parts, from_ordinal: Annotated[int, Query(alias="from", ge=0, lt=2**31)] = 0
) -> StreamingResponse:
    """Return every ended item as JSON lines, closed by a line with count and checksum."""
    # Asked before the stream begins: afterwards it is too late for a 404.
    parts.ledger.run(run_id)
    lines = result_lines(parts.ledger, run_id, from_ordinal=from_ordinal)
    return StreamingResponse(lines, media_type=MEDIA_TYPE)


@router.get("/{run_id}/summary")
def summarize_stress_test(run_id: str, parts: Parts) -> StressTestSummary:
    """Return the figures of the run as it stands, each with its interval and n."""
    return parts.summaries.summary(run_id)


@router.get("/{run_id}/report", response_class=HTMLResponse)
def report_stress_test(run_id: str, parts: Parts) -> HTMLResponse:
    """Return the report as one self-contained HTML document."""
    return HTMLResponse(parts.summaries.report(run_id), headers=REPORT_HEADERS)
