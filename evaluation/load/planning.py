"""A run of a million items while it is made: how long it takes, who waits for it, what it keeps (M1)."""

from __future__ import annotations

import asyncio
import hashlib
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import insert, update

from counterpose_core.blobs import BlobStore
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.database.engine import Database
from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.methods import METHODS
from counterpose_gateway.records.items import LeasedStage
from counterpose_gateway.worker.planner import Planner
from evaluation.load.changes import changes
from evaluation.load.measuring import Load, quantile
from evaluation.load.report import Growth, LoadRow
from fakes.gateway import fake_gateway
from fakes.world import CLASSES

GROUP = "planning"
PER_SOURCE = 8
"""Two controls, five edits and one of LANCE-R."""
SECONDS, WAIT_MS, LOCKED_MS = 180.0, 100.0, 50.0
PAUSE = 0.02
AT_ONCE = 5_000


@dataclass(frozen=True)
class Made:
    """What a process that worked on the run measured of itself."""

    run_id: str
    seconds: float
    locked: list[float]
    rest_mb: float
    peak_mb: float

    @property
    def above_rest(self) -> float:
        """Megabytes above what the process took before."""
        return self.peak_mb - self.rest_mb


def planning(load: Load) -> Iterator[LoadRow | Growth]:
    """Yield the figures of making runs of 20,000 to 1,000,000 items, and of changing the largest."""
    points = []
    sizes = load.sizes(20_000, 100_000, 1_000_000)
    for items in sizes:
        folder = load.folder / str(items)
        folder.mkdir()
        created, planned, waits = _make(folder, items)
        points.append((float(items), created.seconds + planned.seconds))
        yield from _rows(items, created, planned, waits, final=items == sizes[-1] and not load.quick)
    yield Growth(group=GROUP, name="a run is made", size="items", unit="s", points=tuple(points))
    yield from changes(load)


def _rows(items: int, created: Made, planned: Made, waits: list[float], *, final: bool) -> Iterator[LoadRow]:
    what = f"a run of {items:,} items"
    took, locked = created.seconds + planned.seconds, [1000 * each for each in planned.locked]
    waited = [1000 * each for each in waits]
    yield _row(f"{what} is made", "s", [took], target=SECONDS if final else None)
    yield _row(f"{what}: the request is answered", "s", [created.seconds])
    yield _row(
        f"{what}: longest wait of another writer", "ms", waited,
        value=max(waited), target=WAIT_MS if final else None,
    )  # fmt: skip
    yield _row(
        f"{what}: a chunk locks the ledger, p99", "ms", locked,
        value=quantile(locked, 0.99), target=LOCKED_MS if final else None,
    )  # fmt: skip
    for who, made in (("gateway", created), ("worker", planned)):
        yield _row(f"{what}: memory of the {who} above rest", "MB", [made.above_rest])


def _row(name: str, unit: str, values: list[float], **given: Any) -> LoadRow:
    known: dict[str, Any] = {"value": values[0], "low": min(values), "high": max(values), "n": len(values)}
    return LoadRow(group=GROUP, name=name, meets=("M1",), unit=unit, **(known | given))


def _make(folder: Path, items: int) -> tuple[Made, Made, list[float]]:
    url = f"sqlite:///{folder / 'ledger.db'}"
    load_dataset(url, items // PER_SOURCE)
    with ExitStack() as stack:
        # A process each: their memory is their own, and none holds the lock of another's interpreter.
        spawn = multiprocessing.get_context("spawn")
        pools = [stack.enter_context(ProcessPoolExecutor(1, spawn)) for _ in range(3)]
        stop = folder / "stop"
        writer: Future[list[float]] = pools[0].submit(_write_beside, url, stop)
        try:
            created = pools[1].submit(create_run, folder).result()
            planned = pools[2].submit(plan_rest, folder, created.run_id).result()
        finally:
            stop.touch()
        return created, planned, writer.result()


def load_dataset(url: str, sources: int, labels: Sequence[str] = CLASSES) -> None:
    """Fill a dataset of four classes with so many sources, whose images are in no store."""
    with closing(Ledger(url)) as ledger:
        ledger.datasets.create("demo", CLASSES)
    database = Database(url)
    for start in range(0, sources, AT_ONCE):
        rows = [_source(number, labels) for number in range(start, min(sources, start + AT_ONCE))]
        with database.writing() as connection:
            connection.execute(insert(schema.sources), rows)
    with database.writing() as connection:
        connection.execute(update(schema.datasets).values(n_sources=sources))
    database.close()


def _source(number: int, labels: Sequence[str]) -> Mapping[str, object]:
    names = [hashlib.sha256(f"{kind} {number}".encode()).hexdigest() for kind in ("source", "image")]
    return {
        "dataset": "demo", "id": names[0], "ordinal": number, "image": names[1],
        "label": labels[number % len(labels)], "filename": f"{number}.png", "caption": None, "group": None,
        "width": 512, "height": 512,
    }  # fmt: skip


def create_run(folder: Path) -> Made:
    """Create a run of eight items for each image of the dataset, as a request does, in this process."""
    return asyncio.run(_created(folder))


async def _created(folder: Path) -> Made:
    body = {"dataset": "demo", "classifiers": ["steady"], "seed": 3, "max_edits_per_image": 5}
    own = {"lance_r_edits_per_image": 1, "confirm": False}
    async with fake_gateway(folder, ledger=Ledger(f"sqlite:///{folder / 'ledger.db'}")) as gateway:
        rest, start = peak_mb(), time.perf_counter()
        answer = await gateway.http.post("/v1/stress-tests", json=body | own, timeout=300.0)
        seconds = time.perf_counter() - start
        answer.raise_for_status()
        return Made(answer.json()["id"], seconds, [], rest, peak_mb())


def plan_rest(folder: Path, run_id: str) -> Made:
    """Plan the rest of a run in this process."""
    with closing(_Timed(f"sqlite:///{folder / 'ledger.db'}")) as ledger:
        large = {kind: replace(method, next_stage=None) for kind, method in METHODS.items()}
        planner = Planner(
            ledger, large, lease_seconds=30.0, most_items=10_000_000,
            store=BlobStore(f"memory://{folder}/store"),
        )  # fmt: skip
        rest, start = peak_mb(), time.perf_counter()
        asyncio.run(_plan_whole(planner))
        seconds = time.perf_counter() - start
        assert ledger.runs.get(run_id).state == "queued"
        return Made(run_id, seconds, ledger.locked, rest, peak_mb())


async def _plan_whole(planner: Planner) -> None:
    while (leased := await planner.lease()) is not None:
        await planner.plan(leased)


class _Timed(Ledger):
    """A ledger that notes for how long each chunk locked it."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.locked: list[float] = []
        self.stages.store_first = partial(self._store, self.stages.store_first)  # type: ignore[method-assign]

    def _store(
        self, store: Callable[..., tuple[LeasedStage, float]], *given: Any, **named: Any
    ) -> tuple[LeasedStage, float]:
        """Store the chunk."""
        following, seconds = store(*given, **named)
        self.locked.append(seconds)
        return following, seconds


def _write_beside(url: str, stop: Path) -> list[float]:
    database, waits = Database(url), list[float]()
    while not stop.exists():
        start = time.perf_counter()
        with database.writing() as connection:
            waits.append(time.perf_counter() - start)
            connection.execute(update(schema.datasets).values(created_at=schema.datasets.c.created_at))
        time.sleep(PAUSE)
    database.close()
    return waits


def peak_mb() -> float:
    """Return the most memory that this process has had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
