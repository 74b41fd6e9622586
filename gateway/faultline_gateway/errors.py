"""Every failure leaves the gateway as problem+json with a code from the closed list."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from faultline_core.contract.base import PROBLEM_MEDIA_TYPE, FieldProblem, Problem
from faultline_core.errors import (
    FaultlineError,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    QuotaExceeded,
    Unauthorized,
    UnknownEditType,
)

# A replica that died is back after some 7 s, a burst is over sooner.
RETRY_AFTER_SECONDS = 2
MOST_NAMED_FIELDS = 20

QUOTAS = frozenset(
    ("body", field) for field in ("limit", "max_edits_per_image", "lance_r_edits_per_image", "n", "real")
)
"""Places whose upper bound is how much a run may ask for."""

_ALTERNATIVE = re.compile(r"(?:list|literal)\[.*\]")

_KINDS: tuple[type[FaultlineError], ...] = (QuotaExceeded, UnknownEditType, InvalidRequest)

_logger = logging.getLogger(__name__)


def problem_response(
    error: FaultlineError, request_id: str | None, errors: Sequence[FieldProblem] = ()
) -> Response:
    """Describe ``error`` on the wire, with Retry-After where trying again may help."""
    problem = Problem.of(error, request_id=request_id)
    if errors:
        problem = problem.model_copy(update={"errors": list(errors)})
    headers = {"retry-after": str(RETRY_AFTER_SECONDS)} if error.retryable else {}
    if isinstance(error, Unauthorized):
        headers["www-authenticate"] = "Bearer"
    return Response(problem.model_dump_json(), error.status, headers, PROBLEM_MEDIA_TYPE)


def install_error_handlers(app: FastAPI) -> None:
    """Answer the error tree, refused bodies and the router's own errors; `edge` answers the rest."""
    app.add_exception_handler(FaultlineError, _faultline_error)
    app.add_exception_handler(RequestValidationError, _refused_body)
    app.add_exception_handler(HTTPException, _router_error)


def request_id_of(request: Request) -> str | None:
    """Return the id under which the request is logged."""
    return getattr(request.state, "request_id", None)


def _faultline_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, FaultlineError)  # it is registered for no other
    # A refusal is the caller's business; what we could not do must be found in the log by its request.
    if error.status >= 500:
        _logger.warning("request %s: %s: %s", request_id_of(request), error.code, error.detail)
    return problem_response(error, request_id_of(request))


def _refused_body(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # it is registered for no other
    # What asks for too much is told so first: the rest of such a request need not be right.
    found = sorted(error.errors(), key=lambda one: _KINDS.index(_kind(one)))
    # The place and pydantic's words, never the input: it may be a picture or a secret.
    fields = [FieldProblem(pointer=_pointer(one), detail=one["msg"]) for one in found[:MOST_NAMED_FIELDS]]
    detail = f"{fields[0].pointer}: {fields[0].detail}" if fields else "the body cannot be read"
    kind = _kind(found[0]) if found else InvalidRequest
    return problem_response(kind(detail), request_id_of(request), fields)


def _kind(one: Mapping[str, Any]) -> type[FaultlineError]:
    if one["type"] == "less_than_equal" and one["loc"] in QUOTAS:
        return QuotaExceeded
    if one["type"] == "literal_error" and "edit_types" in one["loc"]:
        return UnknownEditType
    return InvalidRequest


def _pointer(one: Mapping[str, Any]) -> str:
    """RFC 6901; the first part of a location only says body, query, path or header."""
    # Of a field that may be one thing or another pydantic names the alternative, which is no place.
    places = (part for part in map(str, one["loc"][1:]) if _ALTERNATIVE.fullmatch(part) is None)
    return "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in places)


def _router_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # it is registered for no other
    known: dict[int, type[FaultlineError]] = {404: NotFound, 405: MethodNotAllowed}
    kind = known.get(error.status_code, InvalidRequest)
    detail = f"{request.method} {request.url.path!r}: {error.detail}"
    response = problem_response(kind(detail), request_id_of(request))
    # A 405 owes its caller the Allow header.
    if error.headers:
        response.headers.update(error.headers)
    return response
