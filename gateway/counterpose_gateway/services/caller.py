"""One call to a service: its headers, retries of temporary failures, and the check of the answer."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from counterpose_core.backoff import Backoff
from counterpose_core.blobs import digest
from counterpose_core.contract.base import (
    DEADLINE_HEADER,
    IDEMPOTENCY_HEADER,
    PROBLEM_MEDIA_TYPE,
    REMAINING_HEADER,
    RUN_HEADER,
    SECRET_HEADER,
    TRACE_HEADER,
    Problem,
)
from counterpose_core.contract.field_errors import sentence
from counterpose_core.contract.services import CircuitState
from counterpose_core.errors import (
    BackendUnavailable,
    BadBackendOutput,
    CounterposeError,
    DeadlineExceeded,
    InternalError,
    RateLimited,
    Unauthorized,
)
from counterpose_core.served_calls import account_of
from counterpose_core.tracing import Tracing
from counterpose_gateway.services.accounts import Accounted
from counterpose_gateway.services.calls import REMAINING, REST_SECONDS, RUN, CallCounts, CallLimit, Circuit
from counterpose_gateway.settings import GatewaySettings

A = TypeVar("A", bound=BaseModel)

_logger = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0
BACKOFF = Backoff(first_s=0.5, longest_s=8.0)
_MOST = "counterpose_most"
"""The extension of a request that says the most that it may cost; it is not sent."""
_PASSING_STATUSES = frozenset({404, 408, 500, 502, 503, 504})
"""Status codes that Serve itself answers while an application starts or after a replica has died."""


class ServiceCaller:
    """Calls the services at the settings' address; many tasks may share it."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        settings: GatewaySettings,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: random.Random | None = None,
        tracing: Tracing | None = None,
        absent_seconds: float | None = None,
        accounted: Accounted | None = None,
    ) -> None:
        """``absent_seconds``: how long a service that refuses connections is tried; default: patiently.

        ``accounted``: keeps the account of calls that cost money; None keeps none.
        """
        self._http = http
        self._settings = settings
        self._secret = settings.shared_secret()
        self._sleep = sleep
        self._clock = clock
        # Without a seed, so that workers that start together do not retry together.
        self._jitter = jitter or random.Random()
        self._circuits: defaultdict[str, Circuit] = defaultdict(lambda: Circuit(clock))
        self._limits: defaultdict[str, CallLimit] = defaultdict(lambda: CallLimit(clock))
        self.counts = CallCounts(clock)
        self._tracing = tracing or Tracing()
        self._absent_seconds = absent_seconds
        self._accounted = accounted
        self._absent: dict[str, CounterposeError] = {}

    def limit(self, service: str) -> CallLimit:
        """Return how many calls this process makes to ``service`` at once."""
        return self._limits[service]

    def circuits(self) -> Mapping[str, CircuitState]:
        """Return the state of the circuit of each service that was called."""
        return {service: circuit.state for service, circuit in sorted(self._circuits.items())}

    async def post(self, service: str, path: str, body: BaseModel, answer: type[A]) -> A:
        """Send ``body`` and read ``answer``; equal bodies carry equal idempotency keys.

        Raises:
            BackendUnavailable: the service cannot be reached for ``patience_seconds``.
            DeadlineExceeded: it did not answer in time.
            BadBackendOutput: the response is not a valid ``answer``.
            CounterposeError: the error that its problem document names.
        """
        content = body.model_dump_json().encode()
        # The key is the digest of the content, so that a retry after a lost answer finds the work done.
        headers = {
            "content-type": "application/json",
            IDEMPOTENCY_HEADER: digest(f"{service}{path}\n".encode() + content),
        }
        if (remaining := REMAINING.get()) is not None:
            headers[REMAINING_HEADER] = f"{remaining:.0f}"
        if (run := RUN.get()) is not None:
            headers[RUN_HEADER] = run
        with self._tracing.span(f"{service} {path}", kind="client"):
            headers[TRACE_HEADER] = self._tracing.current() or _new_trace()
            request = self._http.build_request(
                "POST", self._settings.service_url(service) + path, content=content, headers=headers
            )
            if self._accounted is not None and (most := self._accounted.most_of(service, body)) is not None:
                request.extensions[_MOST] = account_of(service, body), most
            async with self._limits[service].place():
                return _read(service, await self._patiently(service, request), answer)

    async def get(self, service: str, path: str, answer: type[A], *, seconds: float | None = None) -> A:
        """Read ``answer`` from ``path``; with ``seconds`` there is one call with that deadline."""
        request = self._http.build_request("GET", self._settings.service_url(service) + path)
        if seconds is not None:
            return _read(service, await self._once(service, request, seconds), answer)
        return _read(service, await self._patiently(service, request), answer)

    async def _patiently(self, service: str, request: httpx.Request) -> httpx.Response:
        started = self._clock()
        failures = 0
        trouble: CounterposeError = self._absent.get(service) or BackendUnavailable(
            f"the {service} keeps failing, so calls to it are paused; check its log, then retry"
        )
        while True:
            pause = self._circuits[service].admit()
            if pause == 0.0:
                try:
                    return await self._timed(service, request, self._settings.call_seconds)
                except (BackendUnavailable, RateLimited) as error:
                    # A missed deadline or bad output is left to the next attempt at the item.
                    trouble = error
                    failures += 1
                    pause = BACKOFF.pause(failures, self._jitter)
            if self._clock() + pause > started + self._patience(service):
                raise trouble
            await self._sleep(pause)

    def _patience(self, service: str) -> float:
        absent = self._absent_seconds if service in self._absent else None
        return self._settings.patience_seconds if absent is None else absent

    async def _timed(self, service: str, request: httpx.Request, seconds: float) -> httpx.Response:
        started = self._clock()
        try:
            with self.counts.call(service):
                response = await self._once(service, request, seconds)
        except DeadlineExceeded:
            self._limits[service].took(seconds, seconds)
            raise
        self._limits[service].took(self._clock() - started, seconds)
        return response

    async def _once(self, service: str, request: httpx.Request, seconds: float) -> httpx.Response:
        self._absent.pop(service, None)
        try:
            response = await self._send(service, request, seconds)
        except (BackendUnavailable, DeadlineExceeded) as error:
            if self._absent_seconds is not None and isinstance(error.__cause__, httpx.ConnectError):
                self._absent[service] = error
            self._note_failure(service)
            raise
        except CounterposeError:
            # A service that refuses a request or has too many of them is alive.
            self._circuits[service].answered()
            raise
        self._circuits[service].answered()
        return response

    def _note_failure(self, service: str) -> None:
        circuit = self._circuits[service]
        before = circuit.state
        circuit.failed()
        if before != "open" and circuit.state == "open":
            _logger.warning("the %s keeps failing: calls wait %g s for a trial", service, REST_SECONDS)

    async def _send(self, service: str, request: httpx.Request, seconds: float) -> httpx.Response:
        request.headers[SECRET_HEADER] = self._secret
        request.headers[DEADLINE_HEADER] = f"{seconds:g}"
        # An answer may take the whole deadline; an absent service is noticed after seconds.
        timeout = httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        request.extensions = {**request.extensions, "timeout": timeout.as_dict()}
        try:
            response = await self._sent(service, request)
        except (httpx.ReadTimeout, httpx.WriteTimeout) as error:
            raise DeadlineExceeded(
                f"the {service} did not answer within {seconds:g} s; retry, or ask for less at once"
            ) from error
        except httpx.TransportError as error:
            raise BackendUnavailable(
                f"the {service} cannot be reached ({type(error).__name__}); check that it runs, then retry: "
                "on one machine, `counterpose up` starts what is missing"
            ) from error
        if not response.is_success:
            raise _failure(service, response)
        return response

    async def _sent(self, service: str, request: httpx.Request) -> httpx.Response:
        most = request.extensions.get(_MOST)
        if self._accounted is None or most is None:
            return await self._http.send(request)
        # Each try by itself: the service may have asked others for all of it before an answer was lost.
        async with self._accounted.call(*most) as answers:
            answers.append(await self._http.send(request))
        return answers[0]


def _new_trace() -> str:
    """Return a ``traceparent`` by which logs of one call can be told apart, where nobody makes spans."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def _read(service: str, response: httpx.Response, answer: type[A]) -> A:
    try:
        return answer.model_validate_json(response.content)
    except ValidationError as error:
        # The input is left out, because it may have as many numbers as an image.
        first = error.errors(include_input=False, include_url=False)[0]
        where = "/".join(str(part) for part in first["loc"])
        raise BadBackendOutput(
            f"the {service} answered an invalid {answer.__name__} ({where}: {sentence(first)}); "
            "check that it runs the gateway's version"
        ) from error


def _failure(service: str, response: httpx.Response) -> CounterposeError:
    if response.headers.get("content-type", "").startswith(PROBLEM_MEDIA_TYPE):
        return _named_failure(service, response)
    detail = f"the {service} answered {response.status_code}; check its log"
    # When Serve sheds load, it answers in plain text, before an application could write a problem.
    if response.status_code == RateLimited.status:
        return RateLimited(detail)
    if response.status_code in _PASSING_STATUSES:
        return BackendUnavailable(detail)
    return BadBackendOutput(detail)


def _named_failure(service: str, response: httpx.Response) -> CounterposeError:
    try:
        error = Problem.model_validate_json(response.content).error()
    except ValidationError:
        return BadBackendOutput(
            f"the {service} answered {response.status_code} with an unreadable problem; check its log"
        )
    if isinstance(error, Unauthorized):
        # Unchanged, the error would tell the gateway's caller that the caller's own key is wrong.
        return InternalError(
            f"the {service} refuses the shared secret; give the gateway the same COUNTERPOSE_SECRET_FILE"
        )
    return error
