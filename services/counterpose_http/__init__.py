"""The HTTP edge that the gateway and the services share.

Request ids, problem documents and exception handlers behave the same on both sides.
"""

from counterpose_http.exception_handlers import FieldRule, install_error_handlers
from counterpose_http.problems import (
    MAX_REQUEST_ID_LENGTH,
    RETRY_AFTER_SECONDS,
    ProblemMiddleware,
    problem_response,
    request_id_of,
)

__all__ = [
    "MAX_REQUEST_ID_LENGTH",
    "RETRY_AFTER_SECONDS",
    "FieldRule",
    "ProblemMiddleware",
    "install_error_handlers",
    "problem_response",
    "request_id_of",
]
