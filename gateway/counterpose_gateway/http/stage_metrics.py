"""Prometheus' series of what the ledger knows: runs, items by stage, calls to services, workers.

Every gateway of one ledger tells the same numbers: a query takes their maximum over the gateways,
not their sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import get_args

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from counterpose_core.types import Cost, ItemKind
from counterpose_gateway.records.measurements import LEASE_LOST, Attempt, Measurements
from counterpose_gateway.services.call_counts import BUCKET, BUCKETS, CALLS, OK, SECONDS
from counterpose_gateway.services.clients import SERVICE_NAMES

OUTCOMES = ("done", "filtered", "failed", "retried")
"""What an attempt at an item came to, but for lost leases, which have a series of their own."""


class StageMetrics(Collector):
    """Series of the measurements that it was given last."""

    def __init__(self) -> None:
        self.measured = Measurements(attempts={}, counts={})

    def collect(self) -> Iterator[Metric]:
        """Yield all families; those with labels have a series even where nothing was counted yet."""
        yield from _runs(self.measured)
        yield from _attempts(self.measured.attempts)
        yield from _calls(self.measured.counts)
        yield from _workers(self.measured)
        yield from _cost(self.measured.cost)


def _runs(measured: Measurements) -> Iterator[Metric]:
    yield GaugeMetricFamily("counterpose_active_runs", "Runs that have not ended.", measured.active_runs)
    yield GaugeMetricFamily(
        "counterpose_open_items", "Items of all runs that wait or are being worked on.", measured.open_items
    )
    yield GaugeMetricFamily(
        "counterpose_oldest_open_run_seconds", "Age of the oldest run with open items, or 0.",
        measured.oldest_seconds,
    )  # fmt: skip
    yield GaugeMetricFamily(
        "counterpose_webhook_messages_pending", "Messages of webhooks that their targets have not taken yet.",
        measured.pending_messages,
    )  # fmt: skip


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
    outcomes: dict[str, Counter[str]] = {service: Counter({OK: 0}) for service in SERVICE_NAMES}
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
