"""One call to a service: what is sent along, patience with what may pass, the answer checked."""

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

from faultline_core.blobs import digest
from faultline_core.contract.base import (
    DEADLINE_HEADER,
    IDEMPOTENCY_HEADER,
    PROBLEM_MEDIA_TYPE,
    SECRET_HEADER,
    TRACE_HEADER,
    Problem,
)
from faultline_core.contract.services import CircuitState
from faultline_core.errors import (
    BackendUnavailable,
    BadBackendOutput,
    DeadlineExceeded,
    FaultlineError,
    InternalError,
    RateLimited,
    Unauthorized,
)
from faultline_gateway.circuits import REST_SECONDS, Circuit
from faultline_gateway.settings import GatewaySettings

A = TypeVar("A", bound=BaseModel)

_logger = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 8.0
_PASSING_STATUSES = frozenset({404, 408, 500, 502, 503, 504})
"""What Serve itself answers, in plain text, while an application starts or a replica has just died."""


class ServiceCaller:
    """Calls services below the settings' address; safe for many tasks at once."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        settings: GatewaySettings,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: random.Random | None = None,
    ) -> None:
        self._http = http
        self._settings = settings
        self._secret = settings.shared_secret()
        self._sleep = sleep
        self._clock = clock
        # The one draw without a seed: workers started together must not come back together.
        self._jitter = jitter or random.Random()
        self._circuits: defaultdict[str, Circuit] = defaultdict(lambda: Circuit(clock))

    def circuits(self) -> Mapping[str, CircuitState]:
        """Return the state of the circuit of each service that was called."""
        return {service: circuit.state for service, circuit in sorted(self._circuits.items())}

    async def post(self, service: str, path: str, body: BaseModel, answer: type[A]) -> A:
        """Send ``body`` and read ``answer``; equal bodies carry equal idempotency keys.

        Raises:
            BackendUnavailable: the service stays away for longer than ``patience_seconds``.
            DeadlineExceeded: it did not answer in time.
            BadBackendOutput: what it answered is no ``answer``.
            FaultlineError: what its problem document names.
        """
        content = body.model_dump_json().encode()
        # The key is the content itself: a repetition after a lost answer finds the work done.
        headers = {
            "content-type": "application/json",
            IDEMPOTENCY_HEADER: digest(f"{service}{path}\n".encode() + content),
            TRACE_HEADER: f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01",
        }
        request = self._http.build_request(
            "POST", self._settings.service_url(service) + path, content=content, headers=headers
        )
        return _read(service, await self._patiently(service, request), answer)

    async def get(self, service: str, path: str, answer: type[A], *, seconds: float | None = None) -> A:
        """Read ``answer`` from ``path``; with ``seconds`` it is asked once and must come that fast."""
        request = self._http.build_request("GET", self._settings.service_url(service) + path)
        if seconds is not None:
            return _read(service, await self._once(service, request, seconds), answer)
        return _read(service, await self._patiently(service, request), answer)

    async def _patiently(self, service: str, request: httpx.Request) -> httpx.Response:
        give_up = self._clock() + self._settings.patience_seconds
        longest = FIRST_PAUSE_S
        trouble: FaultlineError = BackendUnavailable(f"the {service} keeps failing and is left alone for now")
        while True:
            pause = self._circuits[service].admit()
            if pause == 0.0:
                try:
                    return await self._once(service, request, self._settings.call_seconds)
                except (BackendUnavailable, RateLimited) as error:
                    # A missed deadline or bad output is not repeated here: the item's next attempt does that.
                    trouble = error
                    pause = longest * (0.5 + self._jitter.random() / 2)
                    longest = min(2 * longest, LONGEST_PAUSE_S)
            if self._clock() + pause > give_up:
                raise trouble
            await self._sleep(pause)

    async def _once(self, service: str, request: httpx.Request, seconds: float) -> httpx.Response:
        try:
            response = await self._send(service, request, seconds)
        except (BackendUnavailable, DeadlineExceeded):
            self._note_failure(service)
            raise
        except FaultlineError:
            # A refusal by name, or too much at once, comes from a service that is alive.
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
        # An answer may take the whole deadline; that nobody is there is known after seconds.
        timeout = httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        request.extensions = {**request.extensions, "timeout": timeout.as_dict()}
        try:
            response = await self._http.send(request)
        except (httpx.ReadTimeout, httpx.WriteTimeout) as error:
            raise DeadlineExceeded(f"the {service} did not answer within {seconds:g} s") from error
        except httpx.TransportError as error:
            raise BackendUnavailable(f"the {service} cannot be reached: {type(error).__name__}") from error
        if not response.is_success:
            raise _failure(service, response)
        return response


def _read(service: str, response: httpx.Response, answer: type[A]) -> A:
    try:
        return answer.model_validate_json(response.content)
    except ValidationError as error:
        # The input is left out: it may be a picture's worth of numbers.
        first = error.errors(include_input=False, include_url=False)[0]
        where = "/".join(str(part) for part in first["loc"])
        raise BadBackendOutput(
            f"the {service} answered no {answer.__name__}: {where}: {first['msg']}"
        ) from error


def _failure(service: str, response: httpx.Response) -> FaultlineError:
    if response.headers.get("content-type", "").startswith(PROBLEM_MEDIA_TYPE):
        return _named_failure(service, response)
    detail = f"the {service} answered {response.status_code}"
    # Serve sheds load in plain text, before any application could write a problem.
    if response.status_code == RateLimited.status:
        return RateLimited(detail)
    if response.status_code in _PASSING_STATUSES:
        return BackendUnavailable(detail)
    return BadBackendOutput(detail)


def _named_failure(service: str, response: httpx.Response) -> FaultlineError:
    try:
        error = Problem.model_validate_json(response.content).error()
    except ValidationError:
        return BadBackendOutput(f"the {service} answered {response.status_code} with an unreadable problem")
    if isinstance(error, Unauthorized):
        # Passed on as it is, it would tell the gateway's own caller that their key is wrong.
        return InternalError(f"the {service} refuses the shared secret")
    return error
