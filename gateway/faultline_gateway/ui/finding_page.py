"""``/ui/runs/{id}/findings/{n}``: a finding with all its images, and its proof on more of them."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from faultline_gateway.methods.stress_test.report.findings import BADGES
from faultline_gateway.routes.context import Context
from faultline_gateway.ui.environment import page
from faultline_gateway.ui.listed_findings import finding_of
from faultline_gateway.ui.page_route import PageRoute
from faultline_gateway.ui.shown_pairs import finding_pair
from faultline_gateway.ui.shown_run import ShownRun

router = APIRouter(prefix="/ui/runs/{run_id}/findings/{number}", route_class=PageRoute)


@router.get("")
def show_finding(request: Request, run_id: str, number: int, context: Context) -> Response:
    """Show a finding: its sentence, its figures with intervals, and every image pair with its control."""
    run = context.ledger.run(run_id)
    shown = ShownRun(run, context.ledger.now())
    finding = finding_of(run, number, context)
    pairs = [finding_pair(run_id, finding, pair, context) for pair in finding.pairs]
    return page(
        request,
        "finding.html.j2",
        shown=shown,
        finding=finding,
        badge=BADGES[finding.state],
        pairs=[pair for pair in pairs if pair is not None],
    )
