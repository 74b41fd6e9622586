"""The templates of the pages, beside those of the reports, whose parts they share; and how pages are sent."""

from __future__ import annotations

from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import ChoiceLoader, PackageLoader
from starlette.requests import Request

from counterpose_gateway.http.sessions import COOKIE
from counterpose_gateway.reports.environment import TEMPLATES as REPORT_TEMPLATES
from counterpose_gateway.reports.states import BADGES
from counterpose_gateway.ui.shown_run import ITEM_STATES, STATES
from counterpose_gateway.ui.static_content import static_addresses

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src {styles}; img-src {images}; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_POLICY = _POLICY.format(styles="'self'", images="'self'")
"""What a page may do: load scripts, styles and images from here, and send forms here."""

REPORT_PAGE_POLICY = _POLICY.format(styles="'self' 'unsafe-inline'", images="'self' data:")
"""The same for a page with a report in it: its bars have lengths of their own, its images are inside."""


def evidence(value: float) -> str:
    """An e-value in words that fit a table: digits as far as they mean something."""
    if value >= 1000:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def in_words(state: str) -> str:
    """The state of a run or an item as a user would say it."""
    return {**STATES, **ITEM_STATES}.get(state, state)


def sentence(text: str) -> str:
    """A text that begins with a capital, as errors do not."""
    return text[:1].upper() + text[1:]


SENT_WITH_PAGES = {
    # Not "no-referrer": with that, browsers send "null" as the origin of our own forms.
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}

TEMPLATES = REPORT_TEMPLATES.overlay(
    loader=ChoiceLoader(
        [PackageLoader("counterpose_gateway.ui"), PackageLoader("counterpose_gateway.reports")]
    )
)
TEMPLATES.filters = {
    **REPORT_TEMPLATES.filters,
    "evidence": evidence,
    "in_words": in_words,
    "sentence": sentence,
}
TEMPLATES.globals = {**REPORT_TEMPLATES.globals, "static": static_addresses(), "badges": BADGES}


def page(
    request: Request, template: str, *, status: int = 200, policy: str = PAGE_POLICY, **shown: Any
) -> HTMLResponse:
    """Answer a page, or a part of one, made of a template."""
    about = {"signed_in": COOKIE in request.cookies, "path": request.url.path}
    html = TEMPLATES.get_template(template).render(about | shown)
    return HTMLResponse(html, status, {"content-security-policy": policy, **SENT_WITH_PAGES})


def part(html: str) -> HTMLResponse:
    """Answer a part of a page that was made before."""
    return HTMLResponse(html, headers={"content-security-policy": PAGE_POLICY, **SENT_WITH_PAGES})
