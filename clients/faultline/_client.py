"""The clients: where calls are sent, retried and read."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Self, TypeVar

import httpx

from faultline._calls import Call, problem_of
from faultline._retries import RetryPolicy, failure_of, transport_error
from faultline.resources.classifiers import AsyncClassifiers, Classifiers
from faultline.resources.datasets import AsyncDatasets, Datasets
from faultline.resources.services import AsyncServices, Services
from faultline.resources.stress_tests import AsyncStressTests, StressTests
from faultline_core.errors import FaultlineError

T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_TIMEOUT_S = 60.0
URL_VARIABLE = "FAULTLINE_URL"
KEY_VARIABLE = "FAULTLINE_API_KEY"


def _headers(api_key: str | None) -> dict[str, str]:
    key = api_key if api_key is not None else os.environ.get(KEY_VARIABLE)
    return {} if key is None else {"authorization": f"Bearer {key}"}


def _url(base_url: str | None) -> str:
    return base_url or os.environ.get(URL_VARIABLE) or DEFAULT_URL


class Client:
    """Faultline over HTTP.

    Args:
        base_url: the gateway; else the variable FAULTLINE_URL, else ``http://127.0.0.1:8080``.
        api_key: sent as a bearer token; else the variable FAULTLINE_API_KEY, else none.
        timeout: seconds a call may take.
        retries: how often a safe call is sent; events and downloads resume where they stopped.
        http: an httpx client of your own, for proxies, certificates or tests.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        retries: RetryPolicy | None = None,
        http: httpx.Client | None = None,
    ) -> None:
        self.retries = retries or RetryPolicy()
        self._http = http or httpx.Client(base_url=_url(base_url), timeout=timeout, headers=_headers(api_key))
        self.stress_tests = StressTests(self)
        self.datasets = Datasets(self)
        self.classifiers = Classifiers(self)
        self.services = Services(self)

    def send(self, call: Call[T]) -> T:
        """Send ``call``, again where that is safe, and read its answer."""
        attempt = 0
        while True:
            attempt += 1
            response: httpx.Response | None = None
            error: FaultlineError | None
            try:
                response = self._http.send(call.build(self._http))
                error = failure_of(response)
            except httpx.TransportError as failure:
                error = transport_error(failure)
            if error is None and response is not None:
                return call.parse(response)
            if error is not None and not self.retries.goes_on(call, attempt, error):
                raise error
            time.sleep(self.retries.pause(attempt, response))

    @contextmanager
    def stream(self, call: Call[T]) -> Iterator[httpx.Response]:
        """Open ``call`` as a stream of bytes."""
        try:
            response = self._http.send(call.build(self._http), stream=True)
        except httpx.TransportError as failure:
            raise transport_error(failure) from failure
        try:
            if not response.is_success:
                response.read()
                raise problem_of(response)
            yield response
        finally:
            response.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient:
    """Faultline over HTTP for asyncio programs; arguments as for `Client`."""

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        retries: RetryPolicy | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self.retries = retries or RetryPolicy()
        self._http = http or httpx.AsyncClient(
            base_url=_url(base_url), timeout=timeout, headers=_headers(api_key)
        )
        self.stress_tests = AsyncStressTests(self)
        self.datasets = AsyncDatasets(self)
        self.classifiers = AsyncClassifiers(self)
        self.services = AsyncServices(self)

    async def send(self, call: Call[T]) -> T:
        """Send ``call``, again where that is safe, and read its answer."""
        attempt = 0
        while True:
            attempt += 1
            response: httpx.Response | None = None
            error: FaultlineError | None
            try:
                response = await self._http.send(call.build(self._http))
                error = failure_of(response)
            except httpx.TransportError as failure:
                error = transport_error(failure)
            if error is None and response is not None:
                return call.parse(response)
            if error is not None and not self.retries.goes_on(call, attempt, error):
                raise error
            await asyncio.sleep(self.retries.pause(attempt, response))

    @asynccontextmanager
    async def stream(self, call: Call[T]) -> AsyncIterator[httpx.Response]:
        """Open ``call`` as a stream of bytes."""
        try:
            response = await self._http.send(call.build(self._http), stream=True)
        except httpx.TransportError as failure:
            raise transport_error(failure) from failure
        try:
            if not response.is_success:
                await response.aread()
                raise problem_of(response)
            yield response
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
