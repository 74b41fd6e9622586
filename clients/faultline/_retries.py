"""When to send a call again, and how long to wait before: one policy for both clients."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TypeVar

import httpx

from faultline._calls import Call, problem_of
from faultline_core.errors import BackendUnavailable, DeadlineExceeded, FaultlineError

T = TypeVar("T")

DEFAULT_ATTEMPTS = 4
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 8.0


@dataclass(frozen=True)
class RetryPolicy:
    """At most ``attempts`` sends; pauses double from 0.25 s to 8 s, with jitter."""

    attempts: int = DEFAULT_ATTEMPTS
    random: random.Random = field(default_factory=random.Random, repr=False)

    def pause(self, attempt: int, response: httpx.Response | None) -> float:
        """Seconds to wait after the ``attempt``-th send (from 1) failed; the server's word goes first."""
        asked = "" if response is None else response.headers.get("retry-after", "")
        if asked.isdigit():
            return min(float(asked), LONGEST_PAUSE_S)
        longest = min(FIRST_PAUSE_S * 2.0 ** (attempt - 1), LONGEST_PAUSE_S)
        return longest * (0.5 + self.random.random() / 2)

    def goes_on(self, call: Call[T], attempt: int, error: FaultlineError) -> bool:
        """Whether to send ``call`` again after this error."""
        return call.safe and error.retryable and attempt < self.attempts


def transport_error(error: httpx.TransportError) -> FaultlineError:
    """Name what happened below HTTP in Faultline's own words."""
    request = error.request
    if isinstance(error, httpx.TimeoutException):
        return DeadlineExceeded(
            f"no answer from {request.url.host!r} to {request.method} {request.url.path} in time"
        )
    return BackendUnavailable(f"cannot reach {str(request.url.copy_with(query=None))!r}: {error}")


def failure_of(response: httpx.Response) -> FaultlineError | None:
    """The error that an answer carries, None for a success."""
    return None if response.is_success else problem_of(response)
