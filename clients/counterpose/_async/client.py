"""The client: a thin shell that sends and sleeps; other modules decide what to send and when to retry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import cached_property
from types import TracebackType
from typing import Self, TypeVar

import httpx

from counterpose import _async
from counterpose._base_client import BaseClient
from counterpose._calls import Call, problem_of, reading
from counterpose._retries import Delivery, Pause, Reply, translated_errors
from counterpose_core.contract.usage import Usage

T = TypeVar("T")


class AsyncClient(BaseClient[httpx.AsyncClient]):
    """Counterpose over HTTP for asyncio programs.

    Args:
        base_url: the gateway's address; default: the variable COUNTERPOSE_URL, then ``http://127.0.0.1:8080``.
        api_key: sent as a bearer token; default: the variable COUNTERPOSE_API_KEY, then no key.
        timeout: seconds that a call may take; default: 60.
        retries: how often safe calls are retried; events and downloads resume where they stopped.
        http: your own httpx client, for proxies, certificates or tests. It brings its own address, headers
            and timeout.

    Raises:
        InvalidRequest: the address is not valid, or a setting is passed that ``http`` overrides.
    """

    @cached_property
    def stress_tests(self) -> _async.AsyncStressTests:
        """``/v1/stress-tests``."""
        return _async.AsyncStressTests(self)

    @cached_property
    def dataset_interfaces(self) -> _async.AsyncDatasetInterfaces:
        """``/v1/dataset-interfaces``."""
        return _async.AsyncDatasetInterfaces(self)

    @cached_property
    def shift_benchmarks(self) -> _async.AsyncShiftBenchmarks:
        """``/v1/shift-benchmarks``."""
        return _async.AsyncShiftBenchmarks(self)

    @cached_property
    def bug_hunts(self) -> _async.AsyncBugHunts:
        """``/v1/bug-hunts``."""
        return _async.AsyncBugHunts(self)

    @cached_property
    def adversarial_datasets(self) -> _async.AsyncAdversarialDatasets:
        """``/v1/adversarial-datasets``."""
        return _async.AsyncAdversarialDatasets(self)

    @cached_property
    def transfers(self) -> _async.AsyncTransfers:
        """``/v1/transfers``."""
        return _async.AsyncTransfers(self)

    @cached_property
    def gates(self) -> _async.AsyncGates:
        """``/v1/gates``."""
        return _async.AsyncGates(self)

    @cached_property
    def runs(self) -> _async.AsyncRuns:
        """Runs of every kind."""
        return _async.AsyncRuns(self)

    @cached_property
    def jobs(self) -> _async.AsyncJobs:
        """``/v1/jobs``."""
        return _async.AsyncJobs(self)

    @cached_property
    def webhooks(self) -> _async.AsyncWebhooks:
        """``/v1/webhooks``."""
        return _async.AsyncWebhooks(self)

    @cached_property
    def datasets(self) -> _async.AsyncDatasets:
        """``/v1/datasets``."""
        return _async.AsyncDatasets(self)

    @cached_property
    def token_files(self) -> _async.AsyncTokenFiles:
        """``/v1/token-files``."""
        return _async.AsyncTokenFiles(self)

    @cached_property
    def classifiers(self) -> _async.AsyncClassifiers:
        """``/v1/classifiers``."""
        return _async.AsyncClassifiers(self)

    @cached_property
    def services(self) -> _async.AsyncServices:
        """``/v1/services``."""
        return _async.AsyncServices(self)

    async def usage(self) -> Usage:
        """Return what your tenant's runs have used this month, and its quota."""
        return await self.send(Call(method="GET", path="/v1/usage", parse=reading(Usage)))

    async def send(self, call: Call[T]) -> T:
        """Send ``call``, retry it where that is safe, and parse the response."""
        delivery = Delivery(call, self.retries)
        with self._traced(call):
            while isinstance(read := delivery.judge(await self._reply(call)), Pause):
                await self._sleep(read.seconds)
        return read

    @asynccontextmanager
    async def stream(self, call: Call[T]) -> AsyncIterator[httpx.Response]:
        """Open ``call`` as a byte stream; httpx errors while reading become Counterpose errors."""
        with translated_errors():
            async with aclosing(
                await self._http.send(call.build(self._http, self._timeout), stream=True)
            ) as response:
                if not response.is_success:
                    # The body of a stream is not read yet, and it holds the problem.
                    await response.aread()
                    raise problem_of(response)
                yield response

    async def close(self) -> None:
        """Close the connections and stop serving Python functions."""
        self._functions.close()
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _connect(self, base_url: httpx.URL, timeout: float, headers: Mapping[str, str]) -> httpx.AsyncClient:
        # Redirects are not followed, as httpx does by default: key and body are meant for this host alone.
        return httpx.AsyncClient(base_url=base_url, timeout=timeout, headers=headers)

    async def _reply(self, call: Call[T]) -> Reply:
        try:
            return await self._http.send(self._request(call))
        except httpx.RequestError as error:
            return error

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
