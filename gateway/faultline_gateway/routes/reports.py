"""Serve reports as HTML that may fetch nothing and run only the report's own script."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query
from fastapi.responses import HTMLResponse

from faultline_gateway.reports.environment import CONTENT_POLICY
from faultline_gateway.reports.first_screen import first_screen
from faultline_gateway.routes.context import GatewayContext
from faultline_gateway.runs.method import AnyMethod
from faultline_gateway.runs.summaries import report_of

# The report opens on our own origin: script that slipped through the escaping must not run there.
REPORT_HEADERS = {
    "content-security-policy": f"{CONTENT_POLICY}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}


Part = Annotated[
    Literal["whole", "first-screen"],
    Query(description="`first-screen` for the verdict, its images and the models alone, without script."),
]


def report_response(
    method: AnyMethod, run_id: str, context: GatewayContext, view: Any = None, part: Part = "whole"
) -> HTMLResponse:
    """Answer the report of a run; ``view`` is the reader's choice for its summary."""
    report = report_of(method, run_id, view, context)
    shown = first_screen(report) if part == "first-screen" else report
    return HTMLResponse(shown, headers=REPORT_HEADERS)
