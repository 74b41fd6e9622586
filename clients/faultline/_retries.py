"""When to send a call again, and how long to wait before: one policy for both clients.

Nothing here sends or sleeps, so that the blocking and the asyncio client decide by the same lines.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import httpx

from faultline._calls import Call, problem_of
from faultline_core.errors import (
    BackendUnavailable,
    BadBackendOutput,
    DeadlineExceeded,
    FaultlineError,
    InvalidRequest,
)

T = TypeVar("T")

Reply = httpx.Response | httpx.RequestError
"""What became of one sending."""

DEFAULT_ATTEMPTS = 4
PATIENT_ATTEMPTS = 20
"""With pauses of up to 8 s some 100 s: a gateway is back from a restart long before."""
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 8.0
LONGEST_RETRY_AFTER_S = 60.0

# The request was never taken: what must not be done twice has not been done once.
_NEVER_ARRIVED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True)
class RetryPolicy:
    """At most ``attempts`` sends; pauses double from 0.25 s to 8 s, with jitter.

    A call that waits for a run is sent up to ``patient_attempts`` times: the run goes on meanwhile.
    """

    attempts: int = DEFAULT_ATTEMPTS
    patient_attempts: int = PATIENT_ATTEMPTS
    # Its own: a program that seeds the global generator must not make all its clients retry in step.
    random: random.Random = field(default_factory=random.Random, repr=False)

    def pause(self, attempt: int, response: httpx.Response | None) -> float:
        """Seconds to wait after the ``attempt``-th send (from 1) failed; the server's word goes first."""
        asked = "" if response is None else response.headers.get("retry-after", "")
        # Seconds only: our gateway sends no dates, and one from a proxy depends on two clocks.
        if asked.isascii() and asked.isdigit():
            return min(float(asked), LONGEST_RETRY_AFTER_S)
        longest = min(FIRST_PAUSE_S * 2.0 ** (attempt - 1), LONGEST_PAUSE_S)
        # Jitter: clients that one restart has thrown off must not come back in step.
        return longest * (0.5 + self.random.random() / 2)

    def goes_on(self, call: Call[T], attempt: int, reply: Reply, error: FaultlineError) -> bool:
        """Whether to send ``call`` again after this reply, read as ``error``."""
        most = self.patient_attempts if call.patient else self.attempts
        return error.retryable and attempt < most and (call.safe or did_nothing(reply))


@dataclass(frozen=True)
class Pause:
    """The call is to be sent again after so many seconds."""

    seconds: float


class Delivery(Generic[T]):
    """One call until it is answered for good."""

    def __init__(self, call: Call[T], policy: RetryPolicy) -> None:
        self._call = call
        self._policy = policy
        self._attempts = 0

    def judge(self, reply: Reply) -> T | Pause:
        """Read a good answer, ask for a pause before the next attempt, or raise.

        Raises:
            FaultlineError: what the gateway raised, or what happened below HTTP in Faultline's words.
        """
        self._attempts += 1
        answer = reply if isinstance(reply, httpx.Response) else None
        if answer is not None and answer.is_success:
            return self._call.parse(answer)
        error = error_of(reply)
        if not self._policy.goes_on(self._call, self._attempts, reply, error):
            raise error
        return Pause(self._policy.pause(self._attempts, answer))


def did_nothing(reply: Reply) -> bool:
    """Whether the gateway certainly did nothing: it was not reached, or too busy to take the request."""
    if isinstance(reply, httpx.Response):
        return reply.status_code == httpx.codes.TOO_MANY_REQUESTS
    return isinstance(reply, _NEVER_ARRIVED)


def error_of(reply: Reply) -> FaultlineError:
    """The error that a failed reply stands for."""
    return problem_of(reply) if isinstance(reply, httpx.Response) else failure_of(reply)


def failure_of(error: httpx.RequestError) -> FaultlineError:
    """Name what happened below HTTP in Faultline's own words."""
    request = error.request
    # The query may hold a cursor; it is of no use in a message.
    address = str(request.url.copy_with(query=None))
    if isinstance(error, httpx.TimeoutException):
        return DeadlineExceeded(
            f"no answer from {request.url.host!r} to {request.method} {request.url.path} in time"
        )
    if isinstance(error, httpx.UnsupportedProtocol):
        return InvalidRequest(f"{address!r} is no address of a gateway: {error}")
    if isinstance(error, (httpx.DecodingError, httpx.TooManyRedirects)):
        return BadBackendOutput(f"the answer from {address!r} cannot be read: {error}")
    return BackendUnavailable(f"cannot reach {address!r}: {error}")


@contextmanager
def in_our_words() -> Iterator[None]:
    """Raise what httpx raises inside as a FaultlineError."""
    try:
        yield
    except httpx.RequestError as error:
        raise failure_of(error) from error
