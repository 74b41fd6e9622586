"""Exception handlers: every failure is answered as problem+json with a code from the closed list."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match

from counterpose_core.contract.base import FieldProblem
from counterpose_core.contract.field_errors import location, sentence
from counterpose_core.errors import CounterposeError, InvalidRequest, MethodNotAllowed, NotFound
from counterpose_http.problems import problem_response, request_id_of

MAX_NAMED_FIELDS = 20

FieldError = Mapping[str, Any]
"""One entry of pydantic's ``errors()``: type, loc, msg and ctx."""

_ALTERNATIVE = re.compile(r"(?:list|literal)\[.*\]")
_JSON_INVALID = "json_invalid"
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

_logger = logging.getLogger(__name__)


class RefusedBody(HTTPException):
    """A body is refused while it is read: FastAPI passes on no other exception from there."""

    def __init__(self, error: CounterposeError) -> None:
        super().__init__(error.status, error.detail)
        self.error = error


@dataclass(frozen=True)
class FieldRule:
    """Field errors for which ``matches`` is true are refused as ``refusal`` instead of `InvalidRequest`."""

    refusal: type[CounterposeError]
    matches: Callable[[FieldError], bool]


def _stays(method: str, path: str) -> None:
    """Say of no address that it has moved."""


def install_error_handlers(
    app: FastAPI, rules: Sequence[FieldRule] = (), moved: Callable[[str, str], str | None] = _stays
) -> None:
    """Answer Counterpose's errors, refused bodies and the router's errors as problem documents.

    If a body breaks several of the ``rules``, the first of them determines the problem. ``moved`` returns by
    method and path the address that has taken the place of one that is no more.
    """

    async def refused_fields(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # it is registered only for this class
        return _field_problems(request, error.errors(), rules, error.body)

    app.add_exception_handler(CounterposeError, _counterpose_error)
    app.add_exception_handler(RequestValidationError, refused_fields)
    app.add_exception_handler(HTTPException, partial(_router_error, moved))


def json_pointer(location: Sequence[str | int], body: object = None) -> str:
    """Return the RFC 6901 pointer of a pydantic location, without its first part (body, query, ...).

    ``body``: what was sent, where it is known.
    """
    # For a field with several types, pydantic names the alternative, which is not part of the body.
    parts = [part for part in location[1:] if _ALTERNATIVE.fullmatch(str(part)) is None]
    named = map(str, _without_tags(parts, body))
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in named)


def _without_tags(parts: Sequence[str | int], body: object) -> Iterator[str | int]:
    """Leave out tags by which bodies of several kinds are told apart: only the last part may be missing."""
    for part in parts[:-1]:
        if isinstance(body, Mapping) and part not in body:
            continue
        yield part
        body = _within(body, part)
    yield from parts[-1:]


def _within(body: object, part: str | int) -> object:
    if isinstance(body, Mapping):
        return body.get(part)
    return body[part] if isinstance(body, list) and isinstance(part, int) and part < len(body) else None


async def _counterpose_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, CounterposeError)  # it is registered only for this class
    # The caller can correct a 4xx; a 5xx is our fault, and its request id must lead to it in the log.
    if error.status >= 500:
        _logger.warning("request %s: %s: %s", request_id_of(request), error.code, error.detail)
    return problem_response(error, request_id_of(request))


def _field_problems(
    request: Request, found: Sequence[FieldError], rules: Sequence[FieldRule], body: object
) -> Response:
    ranked = sorted(found, key=lambda error: _rank(error, rules))
    # The field and what is wrong with it, but never the input, which may be an image or a secret.
    fields = [_field_problem(error, body) for error in ranked[:MAX_NAMED_FIELDS]]
    rank = _rank(ranked[0], rules)
    refusal = rules[rank].refusal if rank < len(rules) else InvalidRequest
    first = fields[0]
    detail = f"{first.pointer}: {first.detail}" if first.pointer else first.detail
    return problem_response(refusal(detail), request_id_of(request), fields)


def _rank(error: FieldError, rules: Sequence[FieldRule]) -> int:
    return next((place for place, rule in enumerate(rules) if rule.matches(error)), len(rules))


def _field_problem(error: FieldError, body: object) -> FieldProblem:
    if error["type"] == _JSON_INVALID:
        # FastAPI puts the character's position in the place of the field's name.
        reason, position = error["ctx"]["error"], error["loc"][-1]
        return FieldProblem(
            pointer="", detail=f"the body is not valid JSON: {reason} at character {position}"
        )
    pointer = json_pointer(location(error), body)
    said = sentence(error)
    return FieldProblem(pointer=pointer, detail=said if pointer else f"the body: {said}")


async def _router_error(
    moved: Callable[[str, str], str | None], request: Request, error: Exception
) -> Response:
    assert isinstance(error, HTTPException)  # it is registered only for this class
    new = moved(request.method, request.url.path)
    response = problem_response(_named(request, error, new), request_id_of(request))
    if error.headers:
        response.headers.update(error.headers)
    if error.status_code == 405:
        # RFC 9110 requires it. The router's own names the methods of one route alone.
        response.headers["allow"] = _allowed(request)
    return response


def _allowed(request: Request) -> str:
    """Return the methods that a path answers, of all its routes together."""
    routes: Sequence[BaseRoute] = request.app.routes
    found = (
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    )
    return ", ".join(found)


def _named(request: Request, error: HTTPException, new: str | None) -> CounterposeError:
    if isinstance(error, RefusedBody):
        return error.error
    asked = f"{request.method} {request.url.path!r}"
    match error.status_code:
        case 404 if new is not None:
            return NotFound(f"{asked}: this address has moved; ask {new!r}")
        case 404:
            return NotFound(f"{asked}: no route has this path; check it against the API reference")
        case 405:
            elsewhere = "" if new is None else f"; ask {new!r}"
            return MethodNotAllowed(f"{asked}: this path answers {_allowed(request)} only{elsewhere}")
        case _:
            return InvalidRequest(f"{asked}: {error.detail}")
