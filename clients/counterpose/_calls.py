"""Requests described before they are sent, the same ones for the blocking and the asyncio client."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Generic, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from counterpose_core.contract.base import IDEMPOTENCY_HEADER, PROBLEM_MEDIA_TYPE, REQUEST_ID_HEADER, Problem
from counterpose_core.contract.field_errors import in_words
from counterpose_core.errors import BackendUnavailable, BadBackendOutput, CounterposeError, error_for

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

# A proxy in front of the gateway answers without a problem document: only the status is known.
_STATUS_CODES = {401: "unauthorized", 404: "not-found", 413: "payload-too-large", 429: "rate-limited"}


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request and how to parse its response.

    ``safe`` calls may be sent twice without harm. ``patient`` calls wait for a run, which continues without
    the client, so they are retried for minutes.
    """

    method: str
    path: str
    parse: Callable[[httpx.Response], T]
    _: KW_ONLY
    params: Mapping[str, str | int | float] = field(default_factory=dict)
    body: BaseModel | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None
    safe: bool = True
    patient: bool = False

    def build(
        self, client: httpx.Client | httpx.AsyncClient, timeout_s: float | None = None
    ) -> httpx.Request:
        """Build the request that ``client`` sends; ``timeout_s`` replaces the client's own timeout."""
        # Only what the caller set: a newer SDK's defaults would be unknown fields to an older gateway.
        content = None if self.body is None else self.body.model_dump_json(exclude_unset=True)
        headers = dict(self.headers)
        if content is not None:
            headers["content-type"] = "application/json"
        # Not passed on as None, which would tell httpx to wait forever.
        timeout = client.timeout if timeout_s is None else httpx.Timeout(timeout_s)
        if self.timeout is not None:
            # A report takes minutes whatever a client waits for a list.
            timeout = httpx.Timeout(max(self.timeout, timeout_s or 0.0))
        return client.build_request(
            self.method,
            self.path,
            params=dict(self.params) or None,
            content=content,
            headers=headers,
            timeout=timeout,
        )


def segment(name: str) -> str:
    """Escape a name as one path segment: a slash or question mark must not change the path."""
    return quote(name, safe="")


def reading(model: type[M]) -> Callable[[httpx.Response], M]:
    """Return a parser of JSON responses as ``model``."""

    def parse(response: httpx.Response) -> M:
        try:
            return model.model_validate_json(response.content)
        except ValidationError as error:
            raise BadBackendOutput(
                f"the response to {response.request.url.path!r} is not a {model.__name__}: {in_words(error)}"
            ) from error

    return parse


def reading_text(response: httpx.Response) -> str:
    """Return a response's body as text."""
    return response.text


def reading_bytes(response: httpx.Response) -> bytes:
    """Return a response's body as bytes."""
    return response.content


def reading_nothing(response: httpx.Response) -> None:
    """Return nothing of a response without a body, or of one that is read as a stream."""


def idempotency_headers(key: str | None) -> dict[str, str]:
    """Headers that make a POST safe to repeat, with a random key unless the caller gives one."""
    # Random, not derived from the body: the same stress test started twice on purpose is two runs.
    return {IDEMPOTENCY_HEADER: key or str(uuid.uuid4())}


def problem_of(response: httpx.Response) -> CounterposeError:
    """Turn an error response into the exception that the gateway raised, with the request's id."""
    error = _error_of(response)
    error.request_id = response.headers.get(REQUEST_ID_HEADER)
    return error


def _error_of(response: httpx.Response) -> CounterposeError:
    if response.headers.get("content-type", "").startswith(PROBLEM_MEDIA_TYPE):
        try:
            return Problem.model_validate_json(response.content).error()
        except ValidationError:
            return BadBackendOutput(f"the error from {response.request.url.path!r} is not a problem document")
    detail = f"{response.request.method} {response.request.url.path} answered {response.status_code}"
    if response.status_code >= 500:
        return BackendUnavailable(detail)
    return error_for(_STATUS_CODES.get(response.status_code, "invalid-request"), detail)
