# Generated from clients/counterpose/_async/client.py by clients/blocking_half.py; do not edit.
"""The client: a thin shell that sends and sleeps; other modules decide what to send and when to retry."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cached_property
from types import TracebackType
from typing import Self, TypeVar

import httpx

from counterpose import _sync
from counterpose._base_client import BaseClient
from counterpose._calls import Call, problem_of, reading
from counterpose._retries import Delivery, Pause, Reply, translated_errors
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
    def stress_tests(self) -> _sync.StressTests:
        """``/v1/stress-tests``."""
        return _sync.StressTests(self)

    @cached_property
    def dataset_interfaces(self) -> _sync.DatasetInterfaces:
        """``/v1/dataset-interfaces``."""
        return _sync.DatasetInterfaces(self)

    @cached_property
    def shift_benchmarks(self) -> _sync.ShiftBenchmarks:
        """``/v1/shift-benchmarks``."""
        return _sync.ShiftBenchmarks(self)

    @cached_property
    def bug_hunts(self) -> _sync.BugHunts:
        """``/v1/bug-hunts``."""
        return _sync.BugHunts(self)

    @cached_property
    def adversarial_datasets(self) -> _sync.AdversarialDatasets:
        """``/v1/adversarial-datasets``."""
        return _sync.AdversarialDatasets(self)

    @cached_property
    def transfers(self) -> _sync.Transfers:
        """``/v1/transfers``."""
        return _sync.Transfers(self)

    @cached_property
    def gates(self) -> _sync.Gates:
        """``/v1/gates``."""
        return _sync.Gates(self)

    @cached_property
    def runs(self) -> _sync.Runs:
        """Runs of every kind."""
        return _sync.Runs(self)

    @cached_property
    def jobs(self) -> _sync.Jobs:
        """``/v1/jobs``."""
        return _sync.Jobs(self)

    @cached_property
    def webhooks(self) -> _sync.Webhooks:
        """``/v1/webhooks``."""
        return _sync.Webhooks(self)

    @cached_property
    def datasets(self) -> _sync.Datasets:
        """``/v1/datasets``."""
        return _sync.Datasets(self)

    @cached_property
    def token_files(self) -> _sync.TokenFiles:
        """``/v1/token-files``."""
        return _sync.TokenFiles(self)

    @cached_property
    def classifiers(self) -> _sync.Classifiers:
        """``/v1/classifiers``."""
        return _sync.Classifiers(self)

    @cached_property
    def services(self) -> _sync.Services:
        """``/v1/services``."""
        return _sync.Services(self)

    def usage(self) -> Usage:
        """Return what your tenant's runs have used this month, and its quota."""
        return self.send(Call(method="GET", path="/v1/usage", parse=reading(Usage)))

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
