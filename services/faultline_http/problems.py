"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from faultline_core.contract.base import PROBLEM_MEDIA_TYPE, FieldProblem, Problem
from faultline_core.errors import FaultlineError, Unauthorized

RETRY_AFTER_SECONDS = 2
"""A burst has passed by then. A replica that died needs about 7 s: its callers find out in three tries."""


def problem_response(
    error: FaultlineError, request_id: str | None, errors: Sequence[FieldProblem] = ()
) -> Response:
    """Describe ``error`` as problem+json.

    ``Retry-After`` is sent exactly where the document says ``retryable``: the status alone cannot tell a
    limit that passes (`rate-limited`) from one that stays (`quota-exceeded`), both 429.
    """
    problem = Problem.of(error, request_id=request_id)
    if errors:
        problem = problem.model_copy(update={"errors": list(errors)})
    headers = {"retry-after": str(RETRY_AFTER_SECONDS)} if error.retryable else {}
    # RFC 9110 requires a challenge on each 401.
    if isinstance(error, Unauthorized):
        headers["www-authenticate"] = "Bearer"
    return Response(problem.model_dump_json(), error.status, headers, PROBLEM_MEDIA_TYPE)
