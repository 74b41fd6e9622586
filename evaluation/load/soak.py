"""Group `soak`: gateway and worker at 60 % of what they can do, for ten minutes or for hours (L8)."""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from counterpose_gateway.progress.status import AROUND_BYTES, KEPT_BYTES
from evaluation.load.gateway_programs import Program
from evaluation.load.measuring import Load, row
from evaluation.load.report import Growth, LoadRow
from evaluation.load.soaked_gateway import LOOK_SECONDS, SoakedGateway, soaked_gateway

SHARE_OF_CAPACITY = 0.6
CAPACITY_SECONDS = 40.0
CAPACITY_RUNS = 8
"""Runs that end while the capacity is measured, at least: a run's first items take far less than its last."""
OPEN_RUNS = 4
"""So many that the worker has work whatever the pauses between stages and polls."""

FILLED = KEPT_BYTES // (AROUND_BYTES + 1_000)
"""Ended runs that are polled first; no text is shorter than a kilobyte. The gateway keeps the texts of the
runs that were polled last, up to `KEPT_BYTES`: growth until then would be taken for growth without end."""

SAMPLE_SECONDS = 5.0
WARM_SHARE = 0.3
"""The first part of the samples, in which caches and pools fill; growth is that of the others."""

ERRORS_SHOWN = 5

GROUP = "soak"
MEETS = ("L8",)
LEAST_HOURS_OF_GROWTH = 0.15
"""A growth an hour that is drawn from less than that is noise: it is shown, not judged."""
MB_AN_HOUR = 5.0
FILES_MORE = 5.0
SIZE_DEVIATION = 0.05


@dataclass(frozen=True)
class Sample:
    """What gateway and worker held at a time, and what they had done until then."""

    hours: float
    resident_mb: tuple[float, ...]
    open_files: tuple[int, ...]
    ledger_bytes: int
    items: int


def soak(load: Load) -> Iterator[LoadRow | Growth]:
    """Fill the caches, measure the capacity, then submit runs at a share of it and watch both processes."""
    seconds = 20.0 if load.quick else load.soak_seconds
    with soaked_gateway(load.folder) as gateway:
        gateway.fill_caches(FILLED // 100 if load.quick else FILLED)
        capacity = _capacity(gateway, CAPACITY_SECONDS / 4 if load.quick else CAPACITY_SECONDS)
        samples = _soaked(gateway, capacity * SHARE_OF_CAPACITY, seconds, load.folder / "state" / "ledger.db")
        for error, times in Counter(gateway.errors).most_common(ERRORS_SHOWN):
            sys.stderr.write(f"{times} x {error}\n")
        yield row(GROUP, "items that one worker finishes at full load", "1/s", [capacity], meets=())
        yield row(
            GROUP, f"errors in {seconds:.0f} s at 60 % of it", "answers and items", [len(gateway.errors)],
            meets=MEETS, target=0.0,
        )  # fmt: skip
        yield from rows_of(samples)


def _capacity(gateway: SoakedGateway, seconds: float) -> float:
    """Return the items a second of a worker that always has work: those of whole runs, from end to end."""
    gateway.keep_open(OPEN_RUNS, until=lambda: gateway.ended_runs >= OPEN_RUNS)
    start, runs, items = time.monotonic(), gateway.ended_runs, gateway.ended_items

    def measured() -> bool:
        return gateway.ended_runs >= runs + CAPACITY_RUNS and time.monotonic() > start + seconds

    gateway.keep_open(OPEN_RUNS, until=measured)
    rate = (gateway.ended_items - items) / (time.monotonic() - start)
    gateway.wait_until_idle()
    return rate


def _soaked(gateway: SoakedGateway, rate: float, seconds: float, ledger: Path) -> list[Sample]:
    start, first = time.monotonic(), gateway.finished_items()
    submitted, samples, a_run = 0.0, list[Sample](), gateway.items_a_run()
    while (passed := time.monotonic() - start) < seconds:
        # By the clock, not after the last run: a slow gateway must not be asked for less.
        while submitted < passed * rate:
            gateway.submit()
            submitted += a_run
        gateway.look()
        if passed >= len(samples) * SAMPLE_SECONDS:
            done = gateway.finished_items() - first
            samples.append(_sample(gateway.programs, passed, ledger, done))
        time.sleep(LOOK_SECONDS)
    return samples


def _sample(programs: Sequence[Program], seconds: float, ledger: Path, items: int) -> Sample:
    return Sample(
        hours=seconds / 3600.0,
        resident_mb=tuple(each.resident_mb() for each in programs),
        open_files=tuple(each.open_files() for each in programs),
        ledger_bytes=ledger.stat().st_size,
        items=items,
    )


def rows_of(samples: Sequence[Sample]) -> Iterator[LoadRow | Growth]:
    """Yield the figures of a soak; memory is drawn from the first sample on.

    Growth of memory and of the ledger is judged only over as much time as shows it: SQLite grows by pages,
    so the halves of a short soak differ by one of its runs.
    """
    warm = samples[int(len(samples) * WARM_SHARE) :]
    hours = [each.hours for each in warm]
    judged = hours[-1] - hours[0] >= LEAST_HOURS_OF_GROWTH
    for number, name in enumerate(("gateway", "worker")):
        held = [each.resident_mb[number] for each in warm]
        slope = float(np.polyfit(hours, held, 1)[0])
        yield row(
            GROUP, f"growth of the {name}'s memory", "MB/h", [slope], meets=MEETS,
            target=MB_AN_HOUR if judged else None, n=len(warm),
        )  # fmt: skip
        opened = [each.open_files[number] for each in warm]
        third = max(1, len(opened) // 3)
        more = statistics.median(opened[-third:]) - statistics.median(opened[:third])
        yield row(
            GROUP, f"more open files of the {name} at the end", "files", [more], meets=MEETS,
            target=FILES_MORE, n=len(warm),
        )  # fmt: skip
        points = tuple((60.0 * each.hours, each.resident_mb[number]) for each in samples)
        yield Growth(group=GROUP, name=f"memory of the {name}", size="minutes", unit="MB", points=points)
    yield row(
        GROUP, "change of the ledger's bytes an item between the halves", "share", [_deviation(warm)],
        meets=MEETS, target=SIZE_DEVIATION if judged else None, n=len(warm),
    )  # fmt: skip


def _deviation(samples: Sequence[Sample]) -> float:
    first, middle, last = samples[0], samples[len(samples) // 2], samples[-1]
    early, late = _bytes_an_item(first, middle), _bytes_an_item(middle, last)
    return abs(late / early - 1.0) if early else float(late > 0)


def _bytes_an_item(begin: Sample, end: Sample) -> float:
    return (end.ledger_bytes - begin.ledger_bytes) / max(1, end.items - begin.items)
