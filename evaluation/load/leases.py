"""How long a worker looks for its next group: with more open items, and with more queued runs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping

from counterpose_gateway.ledger import Ledger
from evaluation.load.bulk import load_run, load_runs
from evaluation.load.databases import DATABASES, ledgers
from evaluation.load.measuring import Load, row
from evaluation.load.report import Growth, LoadRow

REPEATS = 60
"""Leases of each ledger, in turns with those of other sizes: another program's load then meets all alike."""

WARMING = 5
"""Leases before those that are timed: connections, prepared statements, pages of the index."""


def measure(load: Load) -> Iterator[LoadRow | Growth]:
    """Yield the milliseconds of a lease at each size, and by how much the largest exceeds the smallest."""
    sizes = load.sizes(1_000, 10_000, 100_000, 1_000_000)
    runs = load.sizes(1, 100, 1_000, 10_000)
    for database in DATABASES:
        yield from _grown(load, database, "open items", sizes, _open_items)
        yield from _grown(load, database, "queued runs", runs, _queued_runs)


def _open_items(ledger: Ledger, url: str, size: int) -> None:
    load_run(ledger, url, sources=size // 8, per_source=8)


def _queued_runs(ledger: Ledger, url: str, size: int) -> None:
    if size == 1:
        load_run(ledger, url, sources=1_000, per_source=8)
    else:
        load_runs(ledger, url, size, items=8)


def _grown(
    load: Load, database: str, what: str, sizes: tuple[int, ...], fill: Callable[[Ledger, str, int], None]
) -> Iterator[LoadRow | Growth]:
    name = f"Lease of a group, {what}, {database}"
    with ledgers(load.folder, database, len(sizes)) as opened:
        filled = dict(zip(sizes, opened, strict=True))
        for size, (ledger, url) in filled.items():
            fill(ledger, url, size)
        taken = _in_turns({size: ledger for size, (ledger, _) in filled.items()})
    points = tuple((float(size), statistics.median(values)) for size, values in taken.items())
    yield Growth(group="leases", name=name, size=what, unit="ms", points=points)
    for size in (sizes[0], sizes[-1]):
        yield row("leases", f"{name}: {size:,}", "ms", taken[size], meets=("H1",))
    growth = points[-1][1] / points[0][1]
    compared = f"{name}: {sizes[-1]:,} against {sizes[0]:,}"
    yield row(
        "leases", compared, "times", [growth], meets=("H1",), n=len(taken[sizes[-1]]), target=2.0
    )  # fmt: skip


def _in_turns(filled: Mapping[int, Ledger]) -> dict[int, list[float]]:
    taken: dict[int, list[float]] = {size: [] for size in filled}
    for turn in range(WARMING + REPEATS):
        for size, ledger in filled.items():
            start = time.perf_counter()
            group = ledger.items.lease("worker", seconds=600)
            passed = time.perf_counter() - start
            if group is None:
                raise RuntimeError(f"nothing was leased of {size} after {turn} leases")
            if turn >= WARMING:
                taken[size].append(passed * 1000)
    return taken
