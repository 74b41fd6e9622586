"""Group `fleet`: 50,000 items by eight workers on PostgreSQL; workers or server are killed at half-way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import psycopg

from counterpose_core.types import FINAL_RUN_STATES
from evaluation.load.fleet import A_SOURCE, Fleet, Used, fleet
from evaluation.load.fleet_services import LABEL
from evaluation.load.ledger import bare_commits
from evaluation.load.measuring import Load, row
from evaluation.load.report import Growth, LoadRow
from fakes.ledger_audit import violated, violated_totals

GROUP = "fleet"
WORKERS, HANDS = 8, 8
SOURCES, SOURCES_OF_RESTART = 6_250, 1_250
LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 1_800.0
BARE_SECONDS = 3.0
DRAWN = 30
WARM_SHARE = 0.3
"""The first part of a worker's samples, in which its caches and pools fill."""
BYTES_AN_ITEM = 1_000.0
"""What a worker may keep of an item on average: a million items would then take a gigabyte."""


@dataclass(frozen=True)
class Sample:
    """What had happened by a moment: items that ended, processor seconds, and each worker's memory."""

    seconds: float
    ended: int
    used: Used
    resident_mb: tuple[float, ...]


@dataclass(frozen=True)
class Books:
    """What the database says about a run that has ended."""

    lost: int
    again: int
    duplicates: int
    findings: Sequence[str]


def fleets(load: Load) -> Iterator[LoadRow | Growth]:
    """Yield the figures of a run whose workers are killed, and of one whose database is."""
    workers = 2 if load.quick else WORKERS
    # A killed worker's items wait for their lease: in a quick measurement nothing else is left by then.
    leases = {"lease_seconds": 3} if load.quick else {}
    killed, restarted = load.folder / "killed", load.folder / "restarted"
    with fleet(killed, **leases) as started:
        yield from _killed(started, workers, 60 if load.quick else SOURCES)
    with fleet(restarted, **leases) as started:
        yield from _restarted(started, workers, 60 if load.quick else SOURCES_OF_RESTART)


def _killed(started: Fleet, workers: int, sources: int) -> Iterator[LoadRow | Growth]:
    run_id, items = started.plan(sources), sources * A_SOURCE
    commits = [bare_commits(started.url, BARE_SECONDS)]
    started.start(workers, HANDS)
    first = _watched(started, run_id, lambda ended: ended >= items // 2)
    started.kill()
    in_flight = _number(started, "SELECT count(*) FROM items WHERE state = 'leased'")
    started.start(workers, HANDS)
    second = _watched(started, run_id, lambda ended: ended >= items)
    commits.append(bare_commits(started.url, BARE_SECONDS))
    name = f"{items:,} items, {workers} workers, all killed at half-way"
    yield from _books_rows(name, _books(started, run_id), in_flight)
    halves = [_warm(first, items), _warm(second, items)]
    rates = [rate for samples in halves for rate in _rates(samples)]
    yield row(GROUP, f"{name}: items", "items/s", rates, meets=("L3",))
    yield row(GROUP, f"{name}: bare commits before and after", "commits/s", commits, meets=())
    yield from _used_rows(name, halves)
    yield from _memory(name, [first, second], None if workers < WORKERS else BYTES_AN_ITEM)


def _restarted(started: Fleet, workers: int, sources: int) -> Iterator[LoadRow]:
    run_id, items = started.plan(sources), sources * A_SOURCE
    started.start(workers, HANDS)
    _watched(started, run_id, lambda ended: ended >= items // 2)
    started.server.kill()
    start = time.monotonic()
    started.server.start()
    before = started.ended(run_id)
    _watched(started, run_id, lambda ended: ended > before)
    gone_on = time.monotonic() - start
    _watched(started, run_id, lambda ended: ended >= items)
    gone = sum(worker.has_ended() for worker in started.workers)
    name = f"{items:,} items, {workers} workers, the database killed at half-way"
    # What was in flight at the kill, and was recorded after it, is nobody's loss: all hands held no more.
    yield from _books_rows(name, _books(started, run_id), workers * HANDS * A_SOURCE)
    yield row(GROUP, f"{name}: workers that ended", "workers", [gone], meets=("F22",), target=0)
    yield row(GROUP, f"{name}: seconds until items end again", "s", [gone_on], meets=("F22",))


def _watched(started: Fleet, run_id: str, until: Callable[[int], bool]) -> list[Sample]:
    """Look at the run until a condition on the ended items holds; return what was seen."""
    samples, end = list[Sample](), time.monotonic() + PATIENCE_SECONDS
    while True:
        ended = started.ended(run_id)
        resident = tuple(worker.resident_mb() for worker in started.workers)
        samples.append(Sample(time.monotonic(), ended, started.used(), resident))
        if until(ended):
            return samples
        if started.ledger.runs.get(run_id).state in FINAL_RUN_STATES or time.monotonic() > end:
            raise TimeoutError(f"the run stands at {ended} items; look into the worker's log")
        time.sleep(LOOK_SECONDS)


def _books(started: Fleet, run_id: str) -> Books:
    run = started.ledger.runs.get(run_id)
    counts = run.request_counts
    ends = _number(started, f"SELECT count(*) FROM events WHERE message LIKE '% of {LABEL}: %'")
    again = _number(started, "SELECT coalesce(sum(attempts - 1), 0) FROM items WHERE attempts > 1")
    findings = [*violated(started.ledger, run_id), *violated_totals(started.ledger)]
    return Books(counts.total - counts.done - counts.filtered, again, ends - counts.total, findings)


def _number(started: Fleet, query: str) -> int:
    with psycopg.connect(started.url) as connection:
        found = connection.execute(query.encode()).fetchone()
    assert found is not None
    return int(found[0])


def _books_rows(name: str, books: Books, in_flight: int) -> Iterator[LoadRow]:
    meets = ("F1", "F2", "I1", "I2")
    yield row(GROUP, f"{name}: lost", "items", [books.lost], meets=meets, target=0)
    yield row(GROUP, f"{name}: recorded twice", "items", [books.duplicates], meets=meets, target=0)
    yield row(GROUP, f"{name}: findings of the audit", "", [len(books.findings)], meets=meets, target=0)
    yield row(GROUP, f"{name}: done again", "items", [books.again], meets=meets, target=in_flight)


def _warm(samples: Sequence[Sample], items: int) -> list[Sample]:
    """Leave out the start, when programs are imported, and the end, when hands have no work."""
    first, last = samples[0].ended, samples[-1].ended
    share = 0.1 * (last - first)
    warm = [each for each in samples if first + share <= each.ended <= min(last, items - share)]
    return warm if len(warm) > 1 else list(samples)


def _rates(samples: Sequence[Sample], parts: int = 3) -> list[float]:
    """Return the items a second of so many parts of the samples."""
    if len(samples) <= parts:
        parts = max(1, len(samples) - 1)
    borders = [samples[round(number * (len(samples) - 1) / parts)] for number in range(parts + 1)]
    return [
        (end.ended - begin.ended) / (end.seconds - begin.seconds)
        for begin, end in pairwise(borders)
        if end.seconds > begin.seconds
    ]


def _used_rows(name: str, halves: Sequence[Sequence[Sample]]) -> Iterator[LoadRow]:
    pairs = [(samples[0], samples[-1]) for samples in halves if len(samples) > 1]
    spent = [(end.used - begin.used, max(1, end.ended - begin.ended)) for begin, end in pairs]
    for who in ("workers", "database", "services"):
        values = [1_000 * getattr(used, who) / ended for used, ended in spent]
        yield row(GROUP, f"{name}: processor time an item, {who}", "ms", values or [0.0], meets=("E9",))


def _memory(name: str, halves: Sequence[Sequence[Sample]], most: float | None) -> Iterator[LoadRow | Growth]:
    begins = [megabytes for samples in halves for megabytes in _at(samples, WARM_SHARE)]
    middles = [megabytes for samples in halves for megabytes in _at(samples, 0.65)]
    ends = [megabytes for samples in halves for megabytes in _at(samples, 1.0)]
    for when, values in (("start", begins), ("middle", middles), ("end", ends)):
        yield row(GROUP, f"{name}: memory of a worker, {when}", "MB", values, meets=("L8",))
    slopes = [slope for samples in halves for slope in _slopes(samples)]
    yield row(
        GROUP, f"{name}: growth of a worker's memory an item", "bytes", slopes, meets=("L8",),
        value=float(np.mean(slopes)), target=most,
    )  # fmt: skip
    points = [(float(each.ended), float(np.mean(each.resident_mb))) for each in halves[0] if each.ended]
    drawn = tuple(points[:: max(1, len(points) // DRAWN)])
    yield Growth(group=GROUP, name="memory of a worker", size="ended items", unit="MB", points=drawn)


def _at(samples: Sequence[Sample], share: float) -> tuple[float, ...]:
    return samples[round(share * (len(samples) - 1))].resident_mb


def _slopes(samples: Sequence[Sample]) -> list[float]:
    """Return by how many bytes each worker grew an item of its own, after it had warmed up."""
    warm = samples[int(len(samples) * WARM_SHARE) :]
    workers = len(samples[0].resident_mb)
    own = [each.ended / workers for each in warm]
    if len(warm) < 3 or own[0] == own[-1]:
        return [0.0] * workers
    return [
        1e6 * float(np.polyfit(own, [each.resident_mb[number] for each in warm], 1)[0])
        for number in range(workers)
    ]
