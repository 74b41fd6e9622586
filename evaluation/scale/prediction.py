"""Hours and dollars of the workloads on more GPUs than there are here, with the calibrated model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from evaluation.scale.model import Affine, Outcome, Plant, Rates, Transaction, simulate
from evaluation.scale.report import Fitted, Predicted
from evaluation.scale.workloads import (
    A40_PRICE,
    UTILISATION,
    UTILISATIONS,
    Gpu,
    Workload,
)

SIZES = (8, 64, 512)
CALLS_A_REPLICA = (2, 3, 4, 6)
"""Groups processed for each GPU: two as the product has it, or as many more as keep the GPUs busy."""
BUSY = 0.95
"""From this share on a resource binds."""
MOST_HANDS = 256
"""Of one worker."""
SPARE = 0.7
"""The share of its one core that a worker is planned to use."""
DATABASE_SPARE = 0.5
ROUND_TRIP = 0.5e-3
"""Assumed: between a worker and its database in one data centre, in seconds."""
COMMIT = 1.5e-3
"""Assumed: until a commit is on a network disk, in seconds."""
DATABASE_CORES = 16
STORE_BYTES = 10e9
"""Assumed: what an object store takes a second from one cluster."""
GROUPS = 1_500
"""Groups that are simulated at least."""
GROUPS_A_HAND = 4
"""All hands begin at once, and it takes some groups of each until they do not end at once, too."""


@dataclass(frozen=True)
class _Setting:
    workload: Workload
    gpu: Gpu
    gpus: int
    utilisation: float

    @property
    def slow_seconds(self) -> float:
        return self.workload.seconds(self.gpu, self.utilisation)

    @property
    def most_items(self) -> float:
        """Items a second if nothing but the GPUs takes time."""
        return self.gpus / self.slow_seconds * self.workload.items


def table(
    fitted: Fitted, chosen: Sequence[Workload], gpu: Gpu, sizes: Sequence[int] = SIZES
) -> Iterator[Predicted]:
    """Yield a row for each workload and number of GPUs."""
    for workload in chosen:
        rates = _rates(fitted, workload)
        for gpus in sizes:
            yield _row(rates, _Setting(workload, gpu, gpus, UTILISATION))


def _row(rates: Rates, setting: _Setting) -> Predicted:
    least, most = (replace(setting, utilisation=each) for each in UTILISATIONS)
    calls, fastest = _enough(rates, most)
    demanding = _plant(rates, most, calls)
    # As the hands asked before: each for itself.
    before = _simulated(rates, replace(demanding, combined=False))
    workload, seconds = setting.workload, workload_seconds(setting.workload)
    busy, before_busy = _busy(fastest, workload), _busy(before, workload)
    middle, slowest = (_simulated(rates, _plant(rates, each, calls)) for each in (setting, least))
    # Where the run's row is what binds, the plant decides and not the utilisation: the order may be another.
    hours = [_hours(each, workload) for each in (fastest, middle, slowest)]
    return Predicted(
        workload=workload.name, gpu=setting.gpu.name, gpus=setting.gpus, price=setting.gpu.price,
        images=workload.images, hours=hours[1], least_hours=min(hours), most_hours=max(hours),
        items_per_second=fastest.items_per_second, binds=_binds(busy),
        busy=busy, before_items_per_second=before.items_per_second, before_binds=_binds(before_busy),
        before_busy=before_busy, workers=demanding.workers, hands=demanding.hands,
        database_cores=_database(fastest) / DATABASE_SPARE,
        store_megabytes=_stored(fastest, workload) / 1e6,
        published_gpu_hours=seconds / 3600, published_price=A40_PRICE, published_by=workload.published_by,
    )  # fmt: skip


def _enough(rates: Rates, setting: _Setting) -> tuple[int, Outcome]:
    """Return the fewest groups for each GPU with which something binds, and what comes of them."""
    *fewer, most = CALLS_A_REPLICA
    for calls in fewer:
        found = _simulated(rates, _plant(rates, setting, calls))
        if max(found.busy.values()) >= BUSY:
            return calls, found
    return most, _simulated(rates, _plant(rates, setting, most))


def _simulated(rates: Rates, plant: Plant) -> Outcome:
    return simulate(rates, plant, groups=max(GROUPS, GROUPS_A_HAND * plant.workers * plant.hands))


def _binds(busy: Mapping[str, float]) -> str:
    """Return what is used up, the GPUs before all else; hands if nothing is: more groups would help then."""
    if busy["replicas"] >= BUSY:
        return "replicas"
    name = max(busy, key=lambda each: busy[each])
    return name if busy[name] >= BUSY else "hands"


def workload_seconds(workload: Workload) -> float:
    """Return the seconds of one GPU that the papers' code takes for a workload."""
    return workload.groups * workload.published


def _rates(fitted: Fitted, workload: Workload) -> Rates:
    """Scale what was measured for groups of a stress test to the groups of a workload."""
    rates, share = fitted.rates(), workload.items / fitted.items
    return replace(
        rates,
        items=workload.items,
        lease=_scaled(rates.lease, share),
        record=_scaled(rates.record, share),
        calls=workload.calls or rates.calls,
        slow_calls=workload.slow_calls or rates.slow_calls,
    )


def _scaled(kind: Transaction, share: float) -> Transaction:
    return Transaction(
        Affine(kind.worker.fixed, kind.worker.each * share),
        Affine(kind.database.fixed, kind.database.each * share),
        kind.statements,
    )


def _plant(rates: Rates, setting: _Setting, calls: int) -> Plant:
    hands = calls * setting.gpus
    computed = setting.most_items * _worker(rates)
    workers = max(math.ceil(hands / MOST_HANDS), math.ceil(computed / SPARE))
    return Plant(
        workers=workers, hands=math.ceil(hands / workers), replicas=setting.gpus,
        slow_seconds=setting.slow_seconds / rates.slow_calls, database_cores=DATABASE_CORES,
        round_trip=ROUND_TRIP, commit=COMMIT,
    )  # fmt: skip


def _worker(rates: Rates) -> float:
    """Return the processor time of a worker for an item."""
    transactions = rates.lease.worker(1) + rates.record.worker(1)
    return rates.interpreter * (transactions + rates.calls * rates.call) / rates.items


def _database(outcome: Outcome) -> float:
    """Return how many cores the database uses."""
    return outcome.busy["database"] * DATABASE_CORES


def _stored(outcome: Outcome, workload: Workload) -> float:
    """Return the bytes a second that go to the store, each image uncompressed."""
    groups = outcome.items_per_second / workload.items
    return groups * workload.stored * 3 * workload.side**2


def _busy(outcome: Outcome, workload: Workload) -> dict[str, float]:
    return {**outcome.busy, "store": _stored(outcome, workload) / STORE_BYTES}


def _hours(outcome: Outcome, workload: Workload) -> float:
    slowed = max(1.0, _stored(outcome, workload) / STORE_BYTES)
    return workload.groups * workload.items / outcome.items_per_second / 3600 * slowed
