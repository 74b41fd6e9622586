"""The form that every refusal must have: a problem document."""

from __future__ import annotations

import httpx

from faultline_core.contract.base import PROBLEM_MEDIA_TYPE, Problem


def problem(answer: httpx.Response, status: int, code: str) -> Problem:
    """Check the problem document of a refusal, and return it."""
    assert answer.headers["content-type"] == PROBLEM_MEDIA_TYPE
    found = Problem.model_validate_json(answer.content)
    assert (answer.status_code, found.status, found.code) == (status, status, code), found.detail
    assert found.type == f"urn:faultline:problem:{code}"
    assert found.request_id == answer.headers["x-request-id"]
    assert "Traceback" not in answer.text
    return found
