"""The client: a thin shell that sends and sleeps; other modules decide what to send and when to retry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import httpx

from counterpose._base_client import BaseClient
from counterpose._calls import Call, problem_of, reading
from counterpose._lazy import resource
from counterpose._retries import Delivery, Pause, Reply, translated_errors
from counterpose_core.contract.usage import Usage

if TYPE_CHECKING:
    from counterpose._async.adversarial_datasets import AsyncAdversarialDatasets
    from counterpose._async.bug_hunts import AsyncBugHunts
    from counterpose._async.dataset_interfaces import AsyncDatasetInterfaces
    from counterpose._async.datasets import AsyncDatasets
    from counterpose._async.gates import AsyncGates
    from counterpose._async.jobs import AsyncJobs
    from counterpose._async.listings import AsyncClassifiers, AsyncServices
    from counterpose._async.runs import AsyncRuns
    from counterpose._async.shift_benchmarks import AsyncShiftBenchmarks
    from counterpose._async.stress_tests import AsyncStressTests
    from counterpose._async.token_files import AsyncTokenFiles
    from counterpose._async.transfers import AsyncTransfers
    from counterpose._async.webhooks import AsyncWebhooks

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

    stress_tests: AsyncStressTests = resource()
    """``/v1/stress-tests``."""
    dataset_interfaces: AsyncDatasetInterfaces = resource()
    """``/v1/dataset-interfaces``."""
    shift_benchmarks: AsyncShiftBenchmarks = resource()
    """``/v1/shift-benchmarks``."""
    bug_hunts: AsyncBugHunts = resource()
    """``/v1/bug-hunts``."""
    adversarial_datasets: AsyncAdversarialDatasets = resource()
    """``/v1/adversarial-datasets``."""
    transfers: AsyncTransfers = resource()
    """``/v1/transfers``."""
    gates: AsyncGates = resource()
    """``/v1/gates``."""
    runs: AsyncRuns = resource()
    """Runs of every kind."""
    jobs: AsyncJobs = resource()
    """``/v1/jobs``."""
    webhooks: AsyncWebhooks = resource()
    """``/v1/webhooks``."""
    datasets: AsyncDatasets = resource()
    """``/v1/datasets``."""
    token_files: AsyncTokenFiles = resource()
    """``/v1/token-files``."""
    classifiers: AsyncClassifiers = resource("listings")
    """``/v1/classifiers``."""
    services: AsyncServices = resource("listings")
    """``/v1/services``."""

    async def usage(self) -> Usage:
        """Return what your tenant's runs have used this month, and its quota."""
        return await self.send(Call("GET", "/v1/usage", reading(Usage)))

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
