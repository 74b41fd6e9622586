"""Errors of HTTP itself: they say what is wrong with a request, whatever it asks for."""

from __future__ import annotations

from typing import Any

from counterpose_core.failure import RequestError


class MalformedRequest(RequestError):
    """The request is not HTTP, or its Host header names no host."""

    code = "malformed-request"
    status = 400
    title = "The request is not valid HTTP"


class NotAcceptable(RequestError):
    """The Accept header admits none of the media types that the address has."""

    code = "not-acceptable"
    status = 406
    title = "No acceptable media type"


class HeadersTooLarge(RequestError):
    """The headers have more bytes or fields than the limit allows."""

    code = "headers-too-large"
    status = 431
    title = "The headers are too large"


class MethodNotAllowed(RequestError):
    """The resource does not support this HTTP method."""

    code = "method-not-allowed"
    status = 405
    title = "Method not allowed"


class Unauthorized(RequestError):
    """The API key or the shared secret is missing or wrong."""

    code = "unauthorized"
    status = 401
    title = "A valid key is needed"


class Forbidden(RequestError):
    """The API key is valid, but does not allow this."""

    code = "forbidden"
    status = 403
    title = "The key does not allow this"


class SignedUrlRefused(RequestError):
    """The signed link has ended, was altered, or the key that made it is not valid any more."""

    code = "signed-url-refused"
    status = 403
    title = "The link is not valid"


class PayloadTooLarge(RequestError):
    """The body is larger than the limit."""

    code = "payload-too-large"
    status = 413
    title = "The body is too large"


class RequestTimeout(RequestError):
    """The headers or the body arrived too slowly."""

    code = "request-timeout"
    status = 408
    title = "The request did not arrive in time"


class RateLimited(RequestError):
    """Too many requests; retry after ``retry_after_s`` seconds, where they are known."""

    code = "rate-limited"
    status = 429
    title = "Too many requests"
    retryable = True

    def __init__(self, detail: str = "", *, retry_after_s: int | None = None, **told: Any) -> None:
        super().__init__(detail, **told)
        self.retry_after_s = retry_after_s


class IdempotencyConflict(RequestError):
    """The idempotency key was used with another body."""

    code = "idempotency-conflict"
    title = "Idempotency key used with another body"


class IdempotencyInFlight(RequestError):
    """The first call with this key has not finished."""

    code = "idempotency-in-flight"
    status = 409
    title = "A call with this idempotency key is in flight"
    retryable = True


class ForeignOrigin(RequestError):
    """A page of another origin asks for a change."""

    code = "foreign-origin"
    status = 403
    title = "Another site asks for this change"
