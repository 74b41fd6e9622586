"""The clients: thin shells that send and sleep; other modules decide what to send and when to retry."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, closing, contextmanager
from functools import cached_property
from types import TracebackType
from typing import Self, TypeVar

import httpx

from counterpose import resources
from counterpose._base_client import BaseClient
from counterpose._calls import Call, problem_of
from counterpose._retries import Delivery, Pause, Reply, translated_errors
from counterpose.resources.listings import USAGE
from counterpose_core.contract.usage import Usage

T = TypeVar("T")


class Client(BaseClient[httpx.Client]):
    """Counterpose over HTTP.

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
    def stress_tests(self) -> resources.StressTests:
        """``/v1/stress-tests``."""
        return resources.StressTests(self)

    @cached_property
    def dataset_interfaces(self) -> resources.DatasetInterfaces:
        """``/v1/dataset-interfaces``."""
        return resources.DatasetInterfaces(self)

    @cached_property
    def shift_benchmarks(self) -> resources.ShiftBenchmarks:
        """``/v1/shift-benchmarks``."""
        return resources.ShiftBenchmarks(self)

    @cached_property
    def bug_hunts(self) -> resources.BugHunts:
        """``/v1/bug-hunts``."""
        return resources.BugHunts(self)

    @cached_property
    def adversarial_datasets(self) -> resources.AdversarialDatasets:
        """``/v1/adversarial-datasets``."""
        return resources.AdversarialDatasets(self)

    @cached_property
    def transfers(self) -> resources.Transfers:
        """``/v1/transfers``."""
        return resources.Transfers(self)

    @cached_property
    def gates(self) -> resources.Gates:
        """``/v1/gates``."""
        return resources.Gates(self)

    @cached_property
    def runs(self) -> resources.Runs:
        """Runs of every kind."""
        return resources.Runs(self)

    @cached_property
    def jobs(self) -> resources.Jobs:
        """``/v1/jobs``."""
        return resources.Jobs(self)

    @cached_property
    def webhooks(self) -> resources.Webhooks:
        """``/v1/webhooks``."""
        return resources.Webhooks(self)

    @cached_property
    def datasets(self) -> resources.Datasets:
        """``/v1/datasets``."""
        return resources.Datasets(self)

    @cached_property
    def token_files(self) -> resources.TokenFiles:
        """``/v1/token-files``."""
        return resources.TokenFiles(self)

    @cached_property
    def classifiers(self) -> resources.Classifiers:
        """``/v1/classifiers``."""
        return resources.Classifiers(self)

    @cached_property
    def services(self) -> resources.Services:
        """``/v1/services``."""
        return resources.Services(self)

    def usage(self) -> Usage:
        """Return what your tenant's runs have used this month, and its quota."""
        return self.send(USAGE)

    def send(self, call: Call[T]) -> T:
        """Send ``call``, retry it where that is safe, and parse the response."""
        delivery = Delivery(call, self.retries)
        with self._traced(call):
            while isinstance(read := delivery.judge(self._reply(call)), Pause):
                self._sleep(read.seconds)
        return read

    @contextmanager
    def stream(self, call: Call[T]) -> Iterator[httpx.Response]:
        """Open ``call`` as a byte stream; httpx errors while reading become Counterpose errors."""
        with (
            translated_errors(),
            closing(self._http.send(call.build(self._http, self._timeout), stream=True)) as response,
        ):
            if not response.is_success:
                # The body of a stream is not read yet, and it holds the problem.
                response.read()
                raise problem_of(response)
            yield response

    def close(self) -> None:
        """Close the connections and stop serving Python functions."""
        self._functions.close()
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self, base_url: httpx.URL, timeout: float, headers: Mapping[str, str]) -> httpx.Client:
        # Redirects are not followed, as httpx does by default: key and body are meant for this host alone.
        return httpx.Client(base_url=base_url, timeout=timeout, headers=headers)

    def _reply(self, call: Call[T]) -> Reply:
        try:
            return self._http.send(self._request(call))
        except httpx.RequestError as error:
            return error

    def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class AsyncClient(BaseClient[httpx.AsyncClient]):
    """Counterpose over HTTP for asyncio programs; takes the arguments of `Client`."""

    @cached_property
    def stress_tests(self) -> resources.AsyncStressTests:
        """``/v1/stress-tests``."""
        return resources.AsyncStressTests(self)

    @cached_property
    def dataset_interfaces(self) -> resources.AsyncDatasetInterfaces:
        """``/v1/dataset-interfaces``."""
        return resources.AsyncDatasetInterfaces(self)

    @cached_property
    def shift_benchmarks(self) -> resources.AsyncShiftBenchmarks:
        """``/v1/shift-benchmarks``."""
        return resources.AsyncShiftBenchmarks(self)

    @cached_property
    def bug_hunts(self) -> resources.AsyncBugHunts:
        """``/v1/bug-hunts``."""
        return resources.AsyncBugHunts(self)

    @cached_property
    def adversarial_datasets(self) -> resources.AsyncAdversarialDatasets:
        """``/v1/adversarial-datasets``."""
        return resources.AsyncAdversarialDatasets(self)

    @cached_property
    def transfers(self) -> resources.AsyncTransfers:
        """``/v1/transfers``."""
        return resources.AsyncTransfers(self)

    @cached_property
    def gates(self) -> resources.AsyncGates:
        """``/v1/gates``."""
        return resources.AsyncGates(self)

    @cached_property
    def runs(self) -> resources.AsyncRuns:
        """Runs of every kind."""
        return resources.AsyncRuns(self)

    @cached_property
    def jobs(self) -> resources.AsyncJobs:
        """``/v1/jobs``."""
        return resources.AsyncJobs(self)

    @cached_property
    def webhooks(self) -> resources.AsyncWebhooks:
        """``/v1/webhooks``."""
        return resources.AsyncWebhooks(self)

    @cached_property
    def datasets(self) -> resources.AsyncDatasets:
        """``/v1/datasets``."""
        return resources.AsyncDatasets(self)

    @cached_property
    def token_files(self) -> resources.AsyncTokenFiles:
        """``/v1/token-files``."""
        return resources.AsyncTokenFiles(self)

    @cached_property
    def classifiers(self) -> resources.AsyncClassifiers:
        """``/v1/classifiers``."""
        return resources.AsyncClassifiers(self)

    @cached_property
    def services(self) -> resources.AsyncServices:
        """``/v1/services``."""
        return resources.AsyncServices(self)

    async def usage(self) -> Usage:
        """Return what your tenant's runs have used this month, and its quota."""
        return await self.send(USAGE)

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
        return httpx.AsyncClient(base_url=base_url, timeout=timeout, headers=headers)

    async def _reply(self, call: Call[T]) -> Reply:
        try:
            return await self._http.send(self._request(call))
        except httpx.RequestError as error:
            return error

    async def _sleep(self, seconds: float) -> None:
        # Imported here: a blocking program would pay a tenth of the SDK's import for it.
        import asyncio

        await asyncio.sleep(seconds)
