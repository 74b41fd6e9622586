"""Errors of HTTP itself: they say what is wrong with a request, whatever it asks for."""

from __future__ import annotations

from typing import Any

from counterpose_core.failure import RequestError


class MalformedRequest(RequestError):
    """The request is not HTTP, or its Host header names no host."""

    code, status, title = "malformed-request", 400, "The request is not valid HTTP"


class NotAcceptable(RequestError):
    """The Accept header admits none of the media types that the address has."""

    code, status, title = "not-acceptable", 406, "No acceptable media type"


class HeadersTooLarge(RequestError):
    """The headers have more bytes or fields than the limit allows."""

    code, status, title = "headers-too-large", 431, "The headers are too large"


class MethodNotAllowed(RequestError):
    """The resource does not support this HTTP method."""

    code, status, title = "method-not-allowed", 405, "Method not allowed"


class Unauthorized(RequestError):
    """The API key or the shared secret is missing or wrong."""

    code, status, title = "unauthorized", 401, "A valid key is needed"


class Forbidden(RequestError):
    """The API key is valid, but does not allow this."""

    code, status, title = "forbidden", 403, "The key does not allow this"


class SignedUrlRefused(RequestError):
    """The signed link has ended, was altered, or the key that made it is not valid any more."""

    code, status, title = "signed-url-refused", 403, "The link is not valid"


class PayloadTooLarge(RequestError):
    """The body is larger than the limit."""

    code, status, title = "payload-too-large", 413, "The body is too large"


class RequestTimeout(RequestError):
    """The headers or the body arrived too slowly."""

    code, status, title = "request-timeout", 408, "The request did not arrive in time"


class RateLimited(RequestError):
    """Too many requests; retry after ``retry_after_s`` seconds, where they are known."""

    code, status, title = "rate-limited", 429, "Too many requests"
    retryable = True

    def __init__(self, detail: str = "", *, retry_after_s: int | None = None, **told: Any) -> None:
        super().__init__(detail, **told)
        self.retry_after_s = retry_after_s


class IdempotencyConflict(RequestError):
    """The idempotency key was used with another body."""

    code, title = "idempotency-conflict", "Idempotency key used with another body"


class IdempotencyInFlight(RequestError):
    """The first call with this key has not finished."""

    code, status, title = "idempotency-in-flight", 409, "A call with this idempotency key is in flight"
    retryable = True


class ForeignOrigin(RequestError):
    """A page of another origin asks for a change."""

    code, status, title = "foreign-origin", 403, "Another site asks for this change"
