"""Workers, services, and one run's row in the ledger, as discrete events (simpy).

A hand of a worker leases an item group, calls the services in turn, and records the group. Each worker is one
interpreter, so one of its hands computes at a time; on a shared machine all programs share its cores. Leases
and records of a run hold its row for every statement, each of which takes the worker, the database and a
round trip between them, and for the commit.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import simpy

RENEWED_EVERY = 5.0
"""Seconds between a worker's renewals of a run."""
AT_ONCE = 16
"""Groups that one transaction leases or records."""

TRIPS_BEFORE, TRIPS_AFTER = 2, 1
"""Round trips of a transaction around the lock: is the connection alive, begin; and, after it, reset."""
SLICE = 0.003
"""Seconds for which the system lets another program run before it looks who else wants to."""

Events = Generator[simpy.Event, Any, None]


@dataclass(frozen=True)
class Affine:
    """What a transaction takes for n groups: ``fixed + each * n``."""

    fixed: float
    each: float

    def __call__(self, groups: int) -> float:
        return self.fixed + self.each * groups


@dataclass(frozen=True)
class Transaction:
    """A transaction that holds the run's row: seconds of the worker and of the database, and statements."""

    worker: Affine
    database: Affine
    statements: Affine


@dataclass(frozen=True)
class Rates:
    """What one item group takes; seconds.

    ``call``: of a worker's processor for a service call; ``service``: of a service's own processor, where it
    shares the machine. ``calls`` of them, of which ``slow_calls`` take ``Plant.slow_seconds`` on a replica.
    """

    items: int
    lease: Transaction
    record: Transaction
    calls: int
    slow_calls: int
    call: float
    service: float
    interpreter: float = 1.0
    """For how many times as long as it computes a worker's interpreter is taken: its threads hand it over."""


@dataclass(frozen=True)
class Plant:
    """Where it runs: ``cores`` that all programs share, or None where each worker has its own.

    ``combined``: whether the hands of a worker combine their transactions. ``beside``: how many of the shared
    cores other programs used.
    """

    workers: int
    hands: int
    replicas: int
    slow_seconds: float
    cores: int | None = None
    database_cores: int = 16
    round_trip: float = 0.0
    commit: float = 0.0
    combined: bool = True
    beside: float = 0.0


@dataclass
class Outcome:
    """What a simulated while brought."""

    seconds: float = 0.0
    groups: int = 0
    items: int = 0
    busy: dict[str, float] = field(default_factory=dict)
    """The share of the time in which each resource was busy, of its capacity."""

    @property
    def items_per_second(self) -> float:
        """The throughput."""
        return self.items / self.seconds if self.seconds else 0.0

    @property
    def binds(self) -> str:
        """The resource that is busiest."""
        return max(self.busy, key=lambda name: self.busy[name])


class Resource:
    """A resource that knows for how long it was held."""

    def __init__(self, environment: simpy.Environment, capacity: int) -> None:
        self._environment = environment
        self._resource = simpy.Resource(environment, capacity)
        self._capacity = capacity
        self._held = 0.0

    def hold(self, seconds: float) -> Events:
        """Wait for a place and hold it for so long."""
        with self._request(first=False) as turn:
            yield turn
            self._held += seconds
            yield self._environment.timeout(seconds)

    def during(self, work: Events, *, first: bool = False) -> Events:
        """Wait for a place, ``first`` of all that wait, and hold it while the work is done."""
        with self._request(first=first) as turn:
            yield turn
            start = self._environment.now
            yield from work
            self._held += self._environment.now - start

    def _request(self, *, first: bool) -> simpy.resources.resource.Request:
        turn = self._resource.request()
        if first and not turn.triggered:
            # simpy's own priorities sort all that wait at each request.
            self._resource.put_queue.remove(turn)
            self._resource.put_queue.insert(0, turn)
        return turn

    def share(self, seconds: float) -> float:
        """Return the share of so many seconds in which it was busy."""
        return self._held / (self._capacity * seconds)

    def forget(self) -> None:
        """Count from now on."""
        self._held = 0.0


class _Combining:
    """Wishes for one transaction: those that come while one is under way go into the next one together."""

    def __init__(self, simulation: Simulation, worker: Resource, kind: Transaction) -> None:
        self._simulation, self._worker, self._kind = simulation, worker, kind
        self._waiting: list[simpy.Event] = []
        self._works = False

    def ask(self) -> Events:
        """Wait until the wish is met."""
        if not self._simulation.plant.combined:
            yield from self._simulation.transaction(self._worker, self._kind, 1)
            return
        met = self._simulation.environment.event()
        self._waiting.append(met)
        if not self._works:
            self._works = True
            self._simulation.environment.process(self._meet())
        yield met

    def _meet(self) -> Events:
        while self._waiting:
            met, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
            yield from self._simulation.transaction(self._worker, self._kind, len(met))
            for each in met:
                each.succeed()
        self._works = False


class Simulation:
    """One run on one plant; `run` it once."""

    def __init__(self, rates: Rates, plant: Plant) -> None:
        self.environment = simpy.Environment()
        self.plant = plant
        self._rates = rates
        self._machine = None if plant.cores is None else Resource(self.environment, plant.cores)
        self._database = self._machine or Resource(self.environment, plant.database_cores)
        self._row = Resource(self.environment, 1)
        self._replicas = Resource(self.environment, plant.replicas)
        self._workers = [Resource(self.environment, 1) for _ in range(plant.workers)]
        self._ended = 0

    def run(self, groups: int, *, warm: int) -> Outcome:
        """Simulate until so many groups have ended after ``warm`` others; return what those brought."""
        for worker in self._workers:
            self._start(worker)
        if self._machine is not None and self.plant.beside > 0:
            for _ in range(self.plant.cores or 1):
                self.environment.process(self._work_beside(self._machine))
        self._until(warm)
        start, before = self.environment.now, self._ended
        resources = [self._row, self._replicas, self._database, *self._workers]
        for resource in resources:
            resource.forget()
        self._until(before + groups)
        seconds, ended = self.environment.now - start, self._ended - before
        workers = sum(worker.share(seconds) for worker in self._workers) / len(self._workers)
        busy = {"row": self._row, "replicas": self._replicas, "database": self._database}
        shares = {name: resource.share(seconds) for name, resource in busy.items()}
        return Outcome(seconds, ended, ended * self._rates.items, {**shares, "workers": workers})

    def transaction(self, worker: Resource, kind: Transaction, groups: int) -> Events:
        """Hold the run's row for all statements of a transaction, and its commit."""
        yield self.environment.timeout(TRIPS_BEFORE * self.plant.round_trip)
        yield from self._row.during(self._statements(worker, kind, groups))
        yield self.environment.timeout(TRIPS_AFTER * self.plant.round_trip)

    def _statements(self, worker: Resource, kind: Transaction, groups: int) -> Events:
        statements = max(1, round(kind.statements(groups)))
        for _ in range(statements):
            # A thread of its own: it waits for one slice of the loop that serves the hands, not for all.
            yield from self._compute(worker, kind.worker(groups) / statements, first=True)
            yield from self._database.hold(kind.database(groups) / statements)
            yield self.environment.timeout(self.plant.round_trip)
        yield self.environment.timeout(self.plant.commit)

    def _until(self, ended: int) -> None:
        while self._ended < ended:
            self.environment.step()

    def _start(self, worker: Resource) -> None:
        lease = _Combining(self, worker, self._rates.lease)
        record = _Combining(self, worker, self._rates.record)
        held: set[int] = set()
        for hand in range(self.plant.hands):
            self.environment.process(self._hand(hand, held, worker, lease, record))
        if self.plant.combined:
            self.environment.process(self._renew(worker))

    def _hand(
        self, hand: int, held: set[int], worker: Resource, lease: _Combining, record: _Combining
    ) -> Events:
        while True:
            yield from lease.ask()
            held.add(hand)
            begun = self.environment.now
            for call in range(self._rates.calls):
                yield from self._compute(worker, self._rates.call)
                if self._machine is not None:
                    yield from self._machine.hold(self._rates.service)
                if call < self._rates.slow_calls:
                    yield from self._replicas.hold(self.plant.slow_seconds)
                if not self.plant.combined and self.environment.now - begun > RENEWED_EVERY:
                    begun = self.environment.now
                    yield from self.transaction(worker, self._rates.lease, 1)
            yield from record.ask()
            held.discard(hand)
            self._ended += 1

    def _work_beside(self, machine: Resource) -> Events:
        share = min(0.99, self.plant.beside / (self.plant.cores or 1))
        due = 0.0
        while True:
            yield from machine.during(self._slice(), first=True)
            # What was measured is what they got, whatever they waited.
            due += SLICE / share
            yield self.environment.timeout(max(0.0, due - self.environment.now))

    def _slice(self) -> Events:
        yield self.environment.timeout(SLICE)

    def _renew(self, worker: Resource) -> Events:
        while True:
            yield self.environment.timeout(RENEWED_EVERY)
            # Two statements: which are still leased, and until when.
            yield from self.transaction(worker, self._rates.lease, 1)

    def _compute(self, worker: Resource, seconds: float, *, first: bool = False) -> Events:
        yield from worker.during(self._computing(seconds), first=first)

    def _computing(self, seconds: float) -> Events:
        if self._machine is None:
            yield self.environment.timeout(seconds * self._rates.interpreter)
            return
        yield from self._machine.hold(seconds)
        yield self.environment.timeout(seconds * (self._rates.interpreter - 1.0))


def simulate(rates: Rates, plant: Plant, *, groups: int = 4_000, warm: int | None = None) -> Outcome:
    """Return what a plant does with a run that has always more groups than hands.

    The first ``warm`` groups are left out; by default two for each hand, at most ``groups``.
    """
    before = min(groups, 2 * plant.workers * plant.hands) if warm is None else warm
    return Simulation(rates, plant).run(groups, warm=before)
