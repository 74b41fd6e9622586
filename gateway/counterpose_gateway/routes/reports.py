"""Serve summaries, and reports as HTML that may fetch nothing and run only the report's own script."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import Query, Request, Response
from fastapi.responses import HTMLResponse

from counterpose_gateway.http.listening import while_connected
from counterpose_gateway.reports.environment import CONTENT_POLICY
from counterpose_gateway.reports.first_screen import first_screen
from counterpose_gateway.routes.context import GatewayContext
from counterpose_gateway.runs.method import AnyMethod
from counterpose_gateway.summaries.summaries import awaited_report, awaited_summary

# The report opens on our own origin: script that slipped through the escaping must not run there.
REPORT_HEADERS = {
    "content-security-policy": f"{CONTENT_POLICY}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    # Its address may be a signed link, which no other site needs to see.
    "referrer-policy": "no-referrer",
}


Part = Annotated[
    Literal["whole", "first-screen"],
    Query(description="`first-screen` for the verdict, its images and the models alone, without script."),
]


async def report_response(
    request: Request,
    method: AnyMethod,
    run_id: str,
    context: GatewayContext,
    view: Any = None,
    part: Part = "whole",
) -> HTMLResponse:
    """Answer the report of a run; ``view`` is the reader's choice for its summary."""
    report = await while_connected(request, awaited_report(method, run_id, view, context))
    shown = first_screen(report) if part == "first-screen" else report
    return HTMLResponse(shown, headers=REPORT_HEADERS)


async def summary_response(
    request: Request, method: AnyMethod, run_id: str, context: GatewayContext, view: Any = None
) -> Response:
    """Answer the summary of a run; it is written by a thread, as it may be long."""
    summary = await while_connected(request, awaited_summary(method, run_id, view, context))
    document = await asyncio.to_thread(summary.model_dump_json, by_alias=True)
    return Response(document, media_type="application/json")
