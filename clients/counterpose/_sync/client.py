# Generated from clients/counterpose/_async/client.py by clients/blocking_half.py; do not edit.
"""The client: a thin shell that sends and sleeps; other modules decide what to send and when to retry."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import httpx

from counterpose._base_client import BaseClient
from counterpose._calls import Call, problem_of, reading
from counterpose._lazy import resource
from counterpose._retries import Delivery, Pause, Reply, translated_errors
from counterpose_core.contract.usage import Usage

if TYPE_CHECKING:
    from counterpose._sync.adversarial_datasets import AdversarialDatasets
    from counterpose._sync.bug_hunts import BugHunts
    from counterpose._sync.dataset_interfaces import DatasetInterfaces
    from counterpose._sync.datasets import Datasets
    from counterpose._sync.gates import Gates
    from counterpose._sync.jobs import Jobs
    from counterpose._sync.listings import Classifiers, Services
    from counterpose._sync.runs import Runs
    from counterpose._sync.shift_benchmarks import ShiftBenchmarks
    from counterpose._sync.stress_tests import StressTests
    from counterpose._sync.token_files import TokenFiles
    from counterpose._sync.transfers import Transfers
    from counterpose._sync.webhooks import Webhooks

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

    stress_tests: StressTests = resource()
    """``/v1/stress-tests``."""
    dataset_interfaces: DatasetInterfaces = resource()
    """``/v1/dataset-interfaces``."""
    shift_benchmarks: ShiftBenchmarks = resource()
    """``/v1/shift-benchmarks``."""
    bug_hunts: BugHunts = resource()
    """``/v1/bug-hunts``."""
    adversarial_datasets: AdversarialDatasets = resource()
    """``/v1/adversarial-datasets``."""
    transfers: Transfers = resource()
    """``/v1/transfers``."""
    gates: Gates = resource()
    """``/v1/gates``."""
    runs: Runs = resource()
    """Runs of every kind."""
    jobs: Jobs = resource()
    """``/v1/jobs``."""
    webhooks: Webhooks = resource()
    """``/v1/webhooks``."""
    datasets: Datasets = resource()
    """``/v1/datasets``."""
    token_files: TokenFiles = resource()
    """``/v1/token-files``."""
    classifiers: Classifiers = resource("listings")
    """``/v1/classifiers``."""
    services: Services = resource("listings")
    """``/v1/services``."""

    def usage(self) -> Usage:
        """Return what your tenant's runs have used this month, and its quota."""
        return self.send(Call("GET", "/v1/usage", reading(Usage)))

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
