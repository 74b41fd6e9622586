"""The gateway's own metrics, in a separate registry, and the middleware that counts responses."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from counterpose_core.contract.services import CircuitState, StoreUse
from counterpose_core.errors import RateLimited
from counterpose_gateway.http.stage_metrics import StageMetrics
from counterpose_gateway.records.measurements import Measurements

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Fine for polling, which must stay fast; coarse for summaries, whose bootstraps take seconds.
_LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class _UseOfStore(Collector):
    """What the store keeps that can be computed again, where this process looks at it."""

    def __init__(self) -> None:
        self.use: StoreUse | None = None

    def collect(self) -> Iterator[Metric]:
        """Yield what the last look found."""
        if self.use is None:
            return
        name = "counterpose_store"
        yield GaugeMetricFamily(
            f"{name}_derived_bytes", "Bytes that can be computed again.", value=self.use.derived_bytes
        )
        yield CounterMetricFamily(f"{name}_evictions", "Files evicted.", value=self.use.evictions)
        yield CounterMetricFamily(f"{name}_evicted_bytes", "Bytes evicted.", value=self.use.evicted_bytes)


class Metrics:
    """Requests by route and status, their latency, what the ledger knows, and circuits of services."""

    def __init__(self) -> None:
        # Not the library's global registry, in which two gateways of one process would clash.
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "counterpose_requests",
            "Answered requests.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._latency = Histogram(
            "counterpose_request_seconds", "Time until the answer began.", ("method", "route"),
            buckets=_LATENCY_BUCKETS, registry=self._registry,
        )  # fmt: skip
        self._circuits = Gauge(
            "counterpose_service_circuit", "1 for the state of a service's circuit in this process.",
            ("service", "state"), registry=self._registry,
        )  # fmt: skip

        self._stages = StageMetrics()
        self._registry.register(self._stages)
        self._store = _UseOfStore()
        self._registry.register(self._store)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answer; ``route`` is the template, so ids make no series of their own."""
        self._requests.labels(method, route, str(status)).inc()
        self._latency.labels(method, route).observe(seconds)

    def count_refusal(self, method: str) -> None:
        """Count a request that found no room; it is answered before its route is known."""
        self.observe(method, "none", RateLimited.status, 0.0)

    def exposition(
        self,
        measured: Measurements,
        circuits: Mapping[str, CircuitState],
        store: StoreUse | None = None,
    ) -> bytes:
        """Return all series in Prometheus' text format; ``measured`` is what the ledger knows."""
        self._stages.measured = measured
        self._store.use = store
        for service, now in circuits.items():
            # A series for each state, so that an alert reads `state="open"` and not a number's meaning.
            for state in get_args(CircuitState):
                self._circuits.labels(service, state).set(state == now)
        return generate_latest(self._registry)


class ResponseCounter:
    """Middleware that counts and times every response; it stands outermost, so it counts refusals too."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        arrived = time.perf_counter()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                # All unknown paths share one series, or a scanner could create series without end.
                route = getattr(scope.get("route"), "path_format", "none")
                seconds = time.perf_counter() - arrived
                self._metrics.observe(scope["method"], route, message["status"], seconds)
            await send(message)

        await self._app(scope, receive, counted)
