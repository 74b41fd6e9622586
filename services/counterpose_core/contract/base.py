"""The base classes of HTTP bodies: requests, responses, problems and the outcomes of a batch."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Generic, Self, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from counterpose_core.contract.editor_backends import Capabilities
from counterpose_core.errors import CounterposeError, error_for
from counterpose_core.field_descriptions import Described
from counterpose_core.types import Cost

T = TypeVar("T")

SECRET_HEADER = "x-counterpose-secret"
DEADLINE_HEADER = "x-counterpose-deadline-seconds"
REMAINING_HEADER = "x-counterpose-remaining-seconds"
"""For how long the run that a call belongs to will go on: a service grows only for work that lasts."""
RUN_HEADER = "x-counterpose-run"
"""The run that a call belongs to: where several runs wait for one network, each gets an equal part of it."""
IDEMPOTENCY_HEADER = "idempotency-key"
TRACE_HEADER = "traceparent"
REQUEST_ID_HEADER = "x-request-id"
PROBLEM_MEDIA_TYPE = "application/problem+json"
PROBLEM_TYPE_PREFIX = "urn:counterpose:problem:"

MAX_BATCH = 64
"""Maximum number of items in one service call."""

Text = Annotated[str, Field(min_length=1, max_length=4000)]


DISTINCT: dict[str, Any] = {"uniqueItems": True}
"""What the schema of a list says whose values `require_distinct` checks."""


def told_apart_by(field: str) -> Callable[[dict[str, Any]], None]:
    """Return the schema's extra of one of several bodies: a request must have the field that names which.

    In Python the field has a default, so the schema would leave it open.
    """

    def require(schema: dict[str, Any]) -> None:
        schema["required"] = [field, *schema.get("required", ())]

    return require


def require_distinct(values: Iterable[str]) -> None:
    """Refuse a list that repeats a value.

    Raises:
        ValueError: a value is listed twice.
    """
    twice = [value for value, count in Counter(values).items() if count > 1]
    if twice:
        raise ValueError(f"{twice[0]!r} is listed twice; list each value once")


def _each_once(values: T) -> T:
    if values:
        require_distinct(map(str, cast("Iterable[object]", values)))
    return values


Distinct = Annotated[T, AfterValidator(_each_once), Field(json_schema_extra=DISTINCT)]
"""A list, or none, that has no value twice."""


class RequestBody(Described, extra="forbid", frozen=True, allow_inf_nan=False):
    """The body of a request; unknown fields are refused."""


# Not written into the class: from there mypy would want every caller's words proven to be one of a few.
_STRICT = ConfigDict(strict=True)


class ClientBody(RequestBody):
    """The body of a request that clients send: no value is taken for one of another type, as "5" for 5."""

    model_config = _STRICT


class ResponseBody(Described, extra="ignore", frozen=True, allow_inf_nan=False):
    """The body of a response; a reader ignores unknown fields, which a newer version may send."""

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show in a notebook what ``print`` shows, where a body says it in sentences."""
        printer.text(repr(self) if type(self).__str__ is BaseModel.__str__ else str(self))


class ListBody(ResponseBody, Generic[T]):
    """The body of a list: it is iterated, counted and indexed as its entries are.

    for dataset in client.datasets.list(): print(dataset.name)
    """

    @property
    def _entries(self) -> list[T]:
        raise NotImplementedError  # pragma: no cover  # each list names its field

    def __iter__(self) -> Iterator[T]:  # type: ignore[override]  # pydantic iterates over fields
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, place: int) -> T:
        return self._entries[place]


class FieldProblem(ResponseBody):
    """One offending field of a request, or one part of a problem."""

    pointer: str
    """JSON pointer (RFC 6901) to the offending value in the request body; empty for the body as a whole."""
    detail: str
    """What is wrong with this value and what to send instead."""
    code: str | None = None
    """Error code from the closed list, or null if only the field is named."""


class Problem(ResponseBody):
    """RFC 9457 problem details: the body of every error."""

    type: str
    """URN of the error code, `urn:counterpose:problem:` followed by the code."""
    title: str
    """Short name of the error, the same for every occurrence of its code."""
    status: int
    """HTTP status of the response."""
    detail: str
    """What happened, to which input, and what to do."""
    code: str
    """Error code from the closed list; it stays the same between versions."""
    retryable: bool = False
    """Whether the same request may succeed later."""
    errors: list[FieldProblem] = []
    """The offending fields, each with a JSON pointer; empty if no single field is at fault."""
    request_id: str | None = None
    """The `X-Request-Id` of the failed request, or null if there was none."""

    @classmethod
    def of(cls, error: CounterposeError, *, request_id: str | None = None) -> Self:
        """Return the body that describes ``error``."""
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

    def error(self) -> CounterposeError:
        """Return the exception this problem describes."""
        parts = [error_for(one.code, one.detail, pointer=one.pointer) for one in self.errors if one.code]
        pointer = self.errors[0].pointer if self.errors else None
        return error_for(self.code, self.detail, pointer=pointer, parts=parts)


class Outcome(ResponseBody, Generic[T]):
    """The outcome of one item of a batch: a value or a problem, never both."""

    value: T | None = None
    """The result for this item, or null if it failed."""
    problem: Problem | None = None
    """Why this item failed, or null if it succeeded."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.value is None) == (self.problem is None):
            raise ValueError("an outcome must have exactly one of value and problem")
        return self

    def unwrap(self) -> T:
        """Return the value or raise the error the problem describes."""
        if self.problem is not None:
            raise self.problem.error()
        assert self.value is not None  # by the validator
        return self.value


class ModelIdentity(ResponseBody):
    """The weights that answered."""

    id: str
    """Name of the model in its suite or registry."""
    revision: str
    """Digest of the weight files; it changes whenever the weights do."""


class BatchResponse(ResponseBody, Generic[T]):
    """The answer to a batch: one outcome for each item of the request."""

    outcomes: list[Outcome[T]]
    """One outcome for each item of the request, in the same order."""
    model: ModelIdentity
    """The weights that answered."""


class CostedBatchResponse(BatchResponse[T], Generic[T]):
    """The answer to a batch, with its cost."""

    cost: Cost = Cost()
    """Cost of the whole call."""


class ServiceHealth(ResponseBody):
    """A service's report on its own state."""

    service: str
    """Name of the service, such as `editor`."""
    ready: bool
    """Whether the service accepts requests now."""
    model: ModelIdentity | None = None
    """The weights it has loaded, or null if it has none or did not answer."""
    detail: str = ""
    """Why the service is not ready; empty when it is."""
    replicas: int | None = Field(default=None, ge=1)
    """Most replicas that the service may have, or null if it does not say."""
    calls: int | None = Field(default=None, ge=1)
    """Number of calls at once that keep all these replicas busy, or null if it does not say; the gateway
    makes no more."""
    occupancy: float | None = Field(default=None, ge=0, le=1)
    """Share of the rows of its network's calls that were used lately by the replica that answers, or null if
    it does not say; only the editor does."""
    capabilities: Capabilities | None = None
    """What it can do, or null if it does not say; only the editor does."""
