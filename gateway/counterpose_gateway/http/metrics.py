"""The gateway's own metrics, in a separate registry, and the middleware that counts responses.

Prometheus' series of what the ledger knows: runs, items by stage, calls to services, workers.

Every gateway of one ledger tells the same numbers: a query takes their maximum over the gateways,
not their sum.

The middleware that makes a span of each request that changes something.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from counterpose_core.contract.base import TRACE_HEADER
from counterpose_core.contract.services import CircuitState, StoreUse
from counterpose_core.errors import RateLimited
from counterpose_core.tracing import TRACE, Tracing
from counterpose_core.types import Cost, ItemKind
from counterpose_gateway.http.bounds import Use
from counterpose_gateway.records.measurements import LEASE_LOST, Attempt, Measurements
from counterpose_gateway.services.calls import BUCKET, BUCKETS, CALLS, OK, SECONDS
from counterpose_gateway.services.clients import SERVICE_NAMES

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Fine for polling, which must stay fast; coarse for summaries, whose bootstraps take seconds.
_LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


def _use_of_store(use: StoreUse | None) -> Iterator[Metric]:
    """What the store keeps that can be computed again, as the last look of this process found."""
    if use is None:
        return
    name = "counterpose_store"
    yield GaugeMetricFamily(
        f"{name}_derived_bytes", "Bytes that can be computed again.", value=use.derived_bytes
    )
    yield CounterMetricFamily(f"{name}_evictions", "Files evicted.", value=use.evictions)
    yield CounterMetricFamily(f"{name}_evicted_bytes", "Bytes evicted.", value=use.evicted_bytes)


def _uses_of_bounds(uses: Sequence[Use]) -> Iterator[Metric]:
    """What this process holds of each bound; of several gateways each tells its own."""
    name = "counterpose_bound"
    now = GaugeMetricFamily(f"{name}_used", "What is held of a bound.", labels=("bound",))
    most = GaugeMetricFamily(f"{name}_most", "What may be held of a bound.", labels=("bound",))
    refused = CounterMetricFamily(f"{name}_refusals", "Requests beyond a bound.", labels=("bound",))
    for use in uses:
        now.add_metric((use.name,), use.now)
        most.add_metric((use.name,), use.most)
        refused.add_metric((use.name,), use.refusals)
    yield from (now, most, refused)


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
        uses: Sequence[Use] = (),
    ) -> bytes:
        """Return all series in Prometheus' text format.

        Args:
            measured: what the ledger knows.
            circuits: of the services, by name.
            store: what the store keeps that can be computed again.
            uses: what this process holds of its bounds.
        """
        self._stages.uses = uses
        self._stages.measured = measured
        self._stages.store = store
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


OUTCOMES = ("done", "filtered", "failed", "retried")
"""What an attempt at an item came to, but for lost leases, which have a series of their own."""


class StageMetrics(Collector):
    """Series of the measurements that it was given last."""

    def __init__(self) -> None:
        self.measured = Measurements(attempts={}, counts={})
        self.store: StoreUse | None = None
        self.uses: Sequence[Use] = ()

    def collect(self) -> Iterator[Metric]:
        """Yield all families; those with labels have a series even where nothing was counted yet."""
        yield from _runs(self.measured)
        yield from _attempts(self.measured.attempts)
        yield from _calls(self.measured.counts)
        yield from _workers(self.measured)
        yield from _cost(self.measured.cost)
        yield from _use_of_store(self.store)
        yield from _uses_of_bounds(self.uses)


def _runs(measured: Measurements) -> Iterator[Metric]:
    for name, what, value in (
        ("counterpose_active_runs", "Runs that have not ended.", measured.active_runs),
        (
            "counterpose_open_items",
            "Items of all runs that wait or are being worked on.",
            measured.open_items,
        ),
        (
            "counterpose_oldest_open_run_seconds",
            "Age of the oldest run with open items, or 0.",
            measured.oldest_seconds,
        ),
        (
            "counterpose_webhook_messages_pending",
            "Messages of webhooks that their targets have not taken yet.",
            measured.pending_messages,
        ),
    ):
        yield GaugeMetricFamily(name, what, value)


def _attempts(attempts: Mapping[Attempt, int]) -> Iterator[Metric]:
    ended = CounterMetricFamily(
        "counterpose_items", "Attempts at items by what they came to; a retried item comes again.",
        labels=("kind", "outcome"),
    )  # fmt: skip
    lost = CounterMetricFamily(
        "counterpose_lease_losses", "Leases that ran out before their worker came back.", labels=("kind",)
    )
    for kind in get_args(ItemKind):
        for outcome in OUTCOMES:
            ended.add_metric((kind, outcome), attempts.get(Attempt(kind, outcome), 0))
        lost.add_metric((kind,), attempts.get(Attempt(kind, LEASE_LOST), 0))
    yield ended
    yield lost


def _calls(counts: Mapping[str, float]) -> Iterator[Metric]:
    calls = CounterMetricFamily(
        "counterpose_service_calls", "Calls to services; the outcome is ok or the code of an error.",
        labels=("service", "outcome"),
    )  # fmt: skip
    took = HistogramMetricFamily(
        "counterpose_service_call_seconds", "Time that calls to services took.", labels=("service",)
    )
    outcomes: dict[str, collections.Counter[str]] = {
        service: collections.Counter({OK: 0}) for service in SERVICE_NAMES
    }
    for series, amount in counts.items():
        match series.split():
            case [word, service, outcome] if word == CALLS and service in outcomes:
                outcomes[service][outcome] = round(amount)
            case _:
                pass
    for service, counted in outcomes.items():
        for outcome, number in sorted(counted.items()):
            calls.add_metric((service, outcome), number)
        took.add_metric((service,), _buckets(service, counts, counted.total()), _seconds(service, counts))
    yield calls
    yield took


def _buckets(service: str, counts: Mapping[str, float], total: int) -> list[tuple[str, float]]:
    """Return how many calls took at most so long, by the bound as written."""
    so_far, buckets = 0.0, []
    for bound in BUCKETS:
        so_far += counts.get(f"{BUCKET} {service} {bound:g}", 0.0)
        buckets.append((str(bound), so_far))
    return [*buckets, ("+Inf", float(total))]


def _seconds(service: str, counts: Mapping[str, float]) -> float:
    return counts.get(f"{SECONDS} {service}", 0.0)


def _workers(measured: Measurements) -> Iterator[Metric]:
    workers = measured.workers
    yield GaugeMetricFamily("counterpose_workers", "Workers that told of themselves lately.", len(workers))
    yield GaugeMetricFamily(
        "counterpose_worker_groups", "Item groups that all workers would process at once.",
        sum(each.groups for each in workers),
    )  # fmt: skip
    yield GaugeMetricFamily(
        "counterpose_worker_groups_busy",
        "Item groups that are processed.",
        sum(each.busy for each in workers),
    )
    under_way = GaugeMetricFamily(
        "counterpose_service_calls_in_flight", "Calls of workers that are under way.", labels=("service",)
    )
    for service in SERVICE_NAMES:
        under_way.add_metric((service,), sum(each.calls.get(service, 0) for each in workers))
    yield under_way
    told = [each.occupancy for each in workers if each.occupancy is not None]
    occupancy = GaugeMetricFamily(
        "counterpose_editor_occupancy",
        "Share of the rows of the editor's network calls that are used, in [0, 1], as told last.",
    )
    if told:
        occupancy.add_metric((), sum(told) / len(told))
    yield occupancy


def _cost(cost: Cost) -> Iterator[Metric]:
    for name, amount in cost.model_dump().items():
        what = f"{name.replace('_', ' ')} that the recorded items of all runs took."
        yield CounterMetricFamily(f"counterpose_cost_{name}", what.capitalize(), value=amount)


_UNTRACED = ("GET", "HEAD", "OPTIONS")
"""Polls: a span of each would say nothing and cost more than its answer."""


class Traced:
    """Makes a span of a request, a child of its caller's, and tells it to what goes on after the answer."""

    def __init__(self, app: ASGIApp, *, tracing: Tracing) -> None:
        self._app, self._tracing = app, tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._tracing.is_on or scope["type"] != "http" or scope["method"] in _UNTRACED:
            await self._app(scope, receive, send)
            return
        # What follows the collection's name is an id.
        collection = "/".join(scope["path"].split("/")[:3])
        parent = Headers(scope=scope).get(TRACE_HEADER)
        with self._tracing.span(f"{scope['method']} {collection}", kind="server", parent=parent):
            TRACE.set(self._tracing.current())
            await self._app(scope, receive, send)
