"""The form that every refusal must have: a problem document, which its operation announces."""

from __future__ import annotations

import functools
import re

import httpx

from counterpose_core.contract.base import PROBLEM_MEDIA_TYPE, Problem
from fakes.openapi_document import codes_of, document


def problem(answer: httpx.Response, status: int, code: str) -> Problem:
    """Check the problem document of a refusal, and return it."""
    assert answer.headers["content-type"] == PROBLEM_MEDIA_TYPE
    found = Problem.model_validate_json(answer.content)
    assert (answer.status_code, found.status, found.code) == (status, status, code), found.detail
    assert found.type == f"urn:counterpose:problem:{code}"
    assert found.request_id == answer.headers["x-request-id"]
    assert "Traceback" not in answer.text
    assert_announced(answer, code)
    return found


def assert_announced(answer: httpx.Response, code: str) -> None:
    """Check that the OpenAPI document lists ``code`` for the operation; add it in `openapi/problems.py`."""
    request = answer.request
    for method, path, codes in _announced():
        if request.method == method and path.fullmatch(request.url.path):
            assert code in codes, f"{method} {path.pattern} answered {code}, which OpenAPI does not list"
            return


@functools.cache
def _announced() -> list[tuple[str, re.Pattern[str], set[str]]]:
    """Return the codes of every operation."""
    return [
        (
            method.upper(),
            re.compile(re.sub(r"{\w+}", "[^/:]+", re.escape(path).replace(r"\{", "{").replace(r"\}", "}"))),
            {code for codes in codes_of(operation).values() for code in codes},
        )
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    ]


def raise_problem(answer: httpx.Response) -> None:
    """Raise the error that an answer describes, if it is one, as a client does."""
    if not answer.is_success:
        raise Problem.model_validate_json(answer.content).error()
