"""What every HTTP body shares: strictness, problems, outcomes."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from faultline_core.errors import FaultlineError, error_for

T = TypeVar("T")

SECRET_HEADER = "x-faultline-secret"
DEADLINE_HEADER = "x-faultline-deadline-seconds"
IDEMPOTENCY_HEADER = "idempotency-key"
TRACE_HEADER = "traceparent"
REQUEST_ID_HEADER = "x-request-id"
PROBLEM_MEDIA_TYPE = "application/problem+json"
PROBLEM_TYPE_PREFIX = "urn:faultline:problem:"

MAX_BATCH = 64
"""Most items in one service call."""

Text = Annotated[str, Field(min_length=1, max_length=4000)]


class RequestBody(BaseModel):
    """A body that a caller sends: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ResponseBody(BaseModel):
    """A body that we send: a reader ignores fields it does not know yet."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class FieldProblem(ResponseBody):
    """One offending field: a JSON pointer and what is wrong there, with a code where it has one."""

    pointer: str
    detail: str
    code: str | None = None


class Problem(ResponseBody):
    """RFC 9457 problem details with a code from the closed list."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool = False
    errors: list[FieldProblem] = []
    request_id: str | None = None

    @classmethod
    def of(cls, error: FaultlineError, *, request_id: str | None = None) -> Problem:
        """Describe ``error`` for the wire."""
        parts = error.parts or (() if error.pointer is None else (error,))
        errors = [
            FieldProblem(pointer=part.pointer or "", detail=part.detail, code=part.code) for part in parts
        ]
        return cls(
            type=PROBLEM_TYPE_PREFIX + error.code,
            title=error.title,
            status=error.status,
            detail=error.detail,
            code=error.code,
            retryable=error.retryable,
            errors=errors,
            request_id=request_id,
        )

    def error(self) -> FaultlineError:
        """Return the exception this problem describes."""
        parts = [error_for(one.code, one.detail, pointer=one.pointer) for one in self.errors if one.code]
        pointer = self.errors[0].pointer if self.errors else None
        return error_for(self.code, self.detail, pointer=pointer, parts=parts)


class Outcome(ResponseBody, Generic[T]):
    """What became of one item of a batch: a value or a problem, never both."""

    value: T | None = None
    problem: Problem | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Outcome[T]:
        if (self.value is None) == (self.problem is None):
            raise ValueError("an outcome has exactly one of value and problem")
        return self

    def unwrap(self) -> T:
        """Return the value or raise the error the problem describes."""
        if self.problem is not None:
            raise self.problem.error()
        assert self.value is not None  # the validator saw to it
        return self.value


class ModelIdentity(ResponseBody):
    """Which weights answered: a name and the digest of their files."""

    id: str
    revision: str


class ServiceHealth(ResponseBody):
    """A service's own word on its state."""

    service: str
    ready: bool
    model: ModelIdentity | None = None
    detail: str = ""
