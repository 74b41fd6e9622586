"""Pages: their templates, how they are sent, the forms that come back, and errors as pages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from jinja2 import ChoiceLoader, PackageLoader
from starlette.requests import Request
from starlette.responses import Response

from counterpose_core.contract import field_errors
from counterpose_core.errors import CounterposeError, InvalidRequest, NotFound
from counterpose_gateway.http.sessions import cookies_of
from counterpose_gateway.reports.environment import TEMPLATES as REPORT_TEMPLATES
from counterpose_gateway.ui.shown_run import ITEM_STATES, STATES
from counterpose_gateway.ui.static_content import static_addresses
from counterpose_http import request_id_of

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
TEMPLATES.globals = {**REPORT_TEMPLATES.globals, "static": static_addresses()}


def page(
    request: Request, template: str, *, status: int = 200, policy: str = PAGE_POLICY, **shown: Any
) -> HTMLResponse:
    """Answer a page, or a part of one, made of a template."""
    about = {"signed_in": bool(cookies_of(request)[1]), "path": request.url.path}
    html = TEMPLATES.get_template(template).render(about | shown)
    return HTMLResponse(html, status, {"content-security-policy": policy, **SENT_WITH_PAGES})


def part(html: str) -> HTMLResponse:
    """Answer a part of a page that was made before."""
    return HTMLResponse(html, headers={"content-security-policy": PAGE_POLICY, **SENT_WITH_PAGES})


LIVE = "live"
"""The name of the part of a run's page that is asked for again while the run goes."""

_logger = logging.getLogger(__name__)


class PageRoute(APIRoute):
    """A route whose errors are pages with the error's status."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, with errors as pages."""
        handle = super().get_route_handler()

        async def shown(request: Request) -> Response:
            try:
                return await handle(request)
            except CounterposeError as error:
                return error_page(request, error)
            except RequestValidationError as error:
                first = error.errors()[0]
                refusal = InvalidRequest(
                    f"{'.'.join(map(str, first['loc'][1:]))}: {field_errors.sentence(first)}"
                )
                return error_page(request, refusal)

        return shown


def error_page(request: Request, error: CounterposeError) -> Response:
    """Answer an error as a page; a part that polls is replaced by the error's sentence, and polls no more."""
    if error.status >= 500:
        _logger.warning("request %s: %s: %s", request_id_of(request), error.code, error.detail)
    if "hx-request" not in request.headers:
        return page(request, "error.html.j2", status=error.status, error=error)
    # The run itself is gone: its state and its buttons, beside the part that asked, would be of nothing.
    is_whole_run = request.headers.get("hx-target") == LIVE
    template = "error_body.html.j2" if is_whole_run else "error_part.html.j2"
    answer = page(request, template, status=error.status, error=error)
    if is_whole_run:
        answer.headers.update({"hx-retarget": "main", "hx-reswap": "innerHTML"})
    return answer


unknown_page = APIRouter(prefix="/ui", route_class=PageRoute)


@unknown_page.get("/{rest:path}")
def get_unknown(rest: str) -> Response:
    """Say that there is no such page."""
    raise NotFound(f"there is no page '/ui/{rest[:200]}'")


_MOST_FIELDS = 20


async def _form_of(request: Request) -> dict[str, str]:
    # Not through the framework, whose reader of forms also takes files and needs a library of its own.
    try:
        sent = parse_qsl(
            (await request.body()).decode("utf-8"),
            keep_blank_values=True,
            max_num_fields=_MOST_FIELDS,
            errors="strict",
        )
    except ValueError as error:
        raise InvalidRequest(
            "the form is not urlencoded UTF-8 of at most 20 fields; send it again"
        ) from error
    return dict(sent)


Form = Annotated[dict[str, str], Depends(_form_of)]
"""The fields of the form that was sent, by name."""
