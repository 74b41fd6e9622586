"""The root of the error tree, and the branch of errors that the caller can correct."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class CounterposeError(Exception):
    """Root of every error Counterpose raises on purpose.

    ``detail`` is one sentence that names the offending input and says what to do; ``pointer`` is a JSON
    pointer to it in the request body; ``parts`` are the single refusals, one for each input, where several
    inputs were refused at once; ``request_id`` is set if a response carried the error.
    """

    code: ClassVar[str] = "internal-error"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Counterpose failed"
    retryable: ClassVar[bool] = False

    def __init__(
        self, detail: str = "", *, pointer: str | None = None, parts: Sequence[CounterposeError] = ()
    ) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.pointer = pointer
        self.parts = tuple(parts)
        self.request_id: str | None = None


class RequestError(CounterposeError):
    """The caller can correct the request."""

    code, status, title = "invalid-request", 422, "The request is invalid"


def in_a_line(error: Exception) -> str:
    """Return what an error says, in one line of at most 200 characters; its class where it says nothing."""
    text = error.detail if isinstance(error, CounterposeError) else str(error)
    return " ".join(text.split())[:200] or type(error).__name__
