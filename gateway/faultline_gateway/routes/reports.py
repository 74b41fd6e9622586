"""How a report leaves: as HTML that may run and fetch nothing."""

from __future__ import annotations

from fastapi.responses import HTMLResponse

# The report opens on our own origin: whatever slipped through the escaping must not run there.
REPORT_HEADERS = {
    "content-security-policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}


def report_response(html: str) -> HTMLResponse:
    """Answer a report."""
    return HTMLResponse(html, headers=REPORT_HEADERS)
