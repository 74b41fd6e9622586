"""Routes that answer errors as pages: whoever opened a page cannot read a problem document."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from counterpose_core.contract.field_errors import sentence
from counterpose_core.errors import CounterposeError, InvalidRequest, NotFound
from counterpose_gateway.ui.environment import page
from counterpose_http import request_id_of

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
                refusal = InvalidRequest(f"{'.'.join(map(str, first['loc'][1:]))}: {sentence(first)}")
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
