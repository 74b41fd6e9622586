"""When to retry a call and how long to wait before it: one policy for both clients.

Nothing here sends or sleeps, so that the blocking and the asyncio client share every decision.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import httpx

from counterpose._calls import Call, problem_of
from counterpose_core.backoff import Backoff
from counterpose_core.errors import (
    BackendUnavailable,
    BadBackendOutput,
    CounterposeError,
    DeadlineExceeded,
    InvalidRequest,
)

T = TypeVar("T")

Reply = httpx.Response | httpx.RequestError
"""The outcome of one attempt."""

DEFAULT_ATTEMPTS = 4
PATIENT_ATTEMPTS = 20
"""About 100 s with pauses of up to 8 s: a gateway restarts in far less."""
BACKOFF = Backoff(first_s=0.25, longest_s=8.0)
LONGEST_RETRY_AFTER_S = 60.0

START_ADVICE = (
    "Is Counterpose running? Start it with `counterpose up`, or set COUNTERPOSE_URL to its address."
)

# The request never arrived, so sending it again cannot repeat it.
_NEVER_ARRIVED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True)
class RetryPolicy:
    """At most ``attempts`` sends; pauses double from 0.25 s to 8 s, with jitter.

    A call that waits for a run is sent up to ``patient_attempts`` times, since the run continues meanwhile.
    """

    attempts: int = DEFAULT_ATTEMPTS
    patient_attempts: int = PATIENT_ATTEMPTS
    # Its own generator: a program that seeds the global one must not make its clients retry in step.
    random: random.Random = field(default_factory=random.Random, repr=False)

    def pause(self, attempt: int, response: httpx.Response | None) -> float:
        """Seconds to wait after attempt ``attempt`` (from 1); the server's Retry-After takes precedence."""
        asked = "" if response is None else response.headers.get("retry-after", "")
        # Seconds only: our gateway sends no dates, and a proxy's date depends on two clocks.
        if asked.isascii() and asked.isdigit():
            return min(float(asked), LONGEST_RETRY_AFTER_S)
        return BACKOFF.pause(attempt, self.random)

    def retries(self, call: Call[T], attempt: int, reply: Reply, error: CounterposeError) -> bool:
        """Whether to send ``call`` again after this reply, which means ``error``."""
        most = self.patient_attempts if call.patient else self.attempts
        return error.retryable and attempt < most and (call.safe or did_nothing(reply))


@dataclass(frozen=True)
class Pause:
    """Send the call again after ``seconds``."""

    seconds: float


class Delivery(Generic[T]):
    """One call, from its first attempt to its final outcome."""

    def __init__(self, call: Call[T], policy: RetryPolicy) -> None:
        self._call = call
        self._policy = policy
        self._attempts = 0

    def judge(self, reply: Reply) -> T | Pause:
        """Parse a successful response, ask for a pause before the next attempt, or raise.

        Raises:
            CounterposeError: the gateway's error, or the Counterpose error for a failed connection.
        """
        self._attempts += 1
        answer = reply if isinstance(reply, httpx.Response) else None
        if answer is not None and answer.is_success:
            return self._call.parse(answer)
        error = error_of(reply)
        if not self._policy.retries(self._call, self._attempts, reply, error):
            raise error
        return Pause(self._policy.pause(self._attempts, answer))


def did_nothing(reply: Reply) -> bool:
    """Whether the gateway certainly did nothing: it was not reached, or was too busy for the request."""
    if isinstance(reply, httpx.Response):
        return reply.status_code == httpx.codes.TOO_MANY_REQUESTS
    return isinstance(reply, _NEVER_ARRIVED)


def error_of(reply: Reply) -> CounterposeError:
    """The error that a failed attempt means."""
    return problem_of(reply) if isinstance(reply, httpx.Response) else failure_of(reply)


def failure_of(error: httpx.RequestError) -> CounterposeError:
    """Turn an httpx error into the Counterpose error it means."""
    request = error.request
    # The query may hold a cursor, which is of no use in a message.
    address = str(request.url.copy_with(query=None))
    if isinstance(error, httpx.TimeoutException):
        return DeadlineExceeded(
            f"{request.url.host!r} did not answer {request.method} {request.url.path} in time"
        )
    if isinstance(error, httpx.UnsupportedProtocol):
        return InvalidRequest(f"{address!r} is not a gateway's address: {error}")
    if isinstance(error, (httpx.DecodingError, httpx.TooManyRedirects)):
        return BadBackendOutput(f"cannot read the response from {address!r}: {error}")
    advice = f" {START_ADVICE}" if isinstance(error, httpx.ConnectError) else ""
    return BackendUnavailable(f"cannot reach {address!r}: {error}.{advice}")


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise httpx errors from inside as Counterpose errors."""
    try:
        yield
    except httpx.RequestError as error:
        raise failure_of(error) from error
