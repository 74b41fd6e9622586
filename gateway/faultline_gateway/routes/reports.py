"""Serve reports as HTML that may fetch nothing and run only the report's own script."""

from __future__ import annotations

from typing import Any

from fastapi.responses import HTMLResponse

from faultline_gateway.reports.environment import CONTENT_POLICY
from faultline_gateway.routes.context import GatewayContext
from faultline_gateway.runs.method import AnyMethod
from faultline_gateway.runs.summaries import report_of

# The report opens on our own origin: script that slipped through the escaping must not run there.
REPORT_HEADERS = {
    "content-security-policy": f"{CONTENT_POLICY}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}


def report_response(
    method: AnyMethod, run_id: str, context: GatewayContext, view: Any = None
) -> HTMLResponse:
    """Answer the report of a run; ``view`` is the reader's choice for its summary."""
    return HTMLResponse(report_of(method, run_id, view, context), headers=REPORT_HEADERS)
