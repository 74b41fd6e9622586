"""A million items from a WebDataset index: how fast, and what importers and planners keep in memory (M1)."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.datasets import ImportCreate
from counterpose_gateway.images.quota import Quotas
from counterpose_gateway.imports.importer import Importer
from counterpose_gateway.imports.storage import Storage
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.settings import GatewaySettings
from evaluation.load.measuring import Load
from evaluation.load.planning import Made, create_run, peak_mb, plan_rest
from evaluation.load.report import Growth, LoadRow
from fakes.shards import sample, tar
from fakes.world import CLASSES

GROUP = "imports"
PER_SOURCE = 8
SHARD = 1_000
"""Images of a shard."""
SLOPE = 200.0
"""Most bytes a source that a planner may keep: a table has 89, and half as much again while it is sorted."""
LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Imported:
    """What one worker measured of itself while it imported: seconds, and megabytes at rest and at most."""

    seconds: float
    rest_mb: float
    peak_mb: float


@dataclass(frozen=True)
class Size:
    """A dataset that is imported by so many workers and then planned."""

    sources: int
    workers: int


SIZES = (Size(10_000, 1), Size(30_000, 1), Size(125_000, 2))
TOGETHER = Size(30_000, 2)
QUICK = (Size(250, 2),)


def imports(load: Load) -> Iterator[LoadRow | Growth]:
    """Yield the figures of importing up to 125,000 images and planning eight items of each."""
    sizes = QUICK if load.quick else SIZES
    shard = 50 if load.quick else SHARD
    shards = load.folder / "shards"
    write(shards, max(size.sources for size in sizes), shard)
    kept: dict[str, list[tuple[float, float]]] = {"planner": [], "gateway": [], "importer": []}
    for size in sizes:
        folder = load.folder / str(size.sources)
        found = import_size(folder, shards, size, shard)
        yield _rate(size, found)
        created, planned = plan_size(folder)
        yield from _planned(size, created, planned)
        kept["importer"].append((size.sources, max(each.peak_mb - each.rest_mb for each in found)))
        kept["gateway"].append((size.sources, created.above_rest))
        kept["planner"].append((size.sources, planned.above_rest))
    if not load.quick:
        yield _rate(TOGETHER, import_size(load.folder / "together", shards, TOGETHER, shard))
    for who, points in kept.items():
        name = f"memory of the {who} above rest"
        yield Growth(group=GROUP, name=name, size="sources", unit="MB", points=tuple(points))
        if len(points) > 1:
            yield _slope(who, points, judged=who != "importer")


def write(folder: Path, images: int, shard: int) -> None:
    """Write distinct images in tar shards, the names of their classes, and an index for each size."""
    folder.mkdir()
    for number in range(-(-images // shard)):
        places = range(number * shard, min(images, (number + 1) * shard))
        members = (member for place in places for member in sample(place, place % len(CLASSES)))
        (folder / f"{number:06d}.tar").write_bytes(tar(members))
    (folder / "classes.json").write_text(json.dumps(CLASSES), encoding="utf-8")


def index_of(folder: Path, sources: int, shard: int) -> str:
    """Write the index of the first shards, as `widsindex` does, and return its address."""
    names = [f"{number:06d}.tar" for number in range(-(-sources // shard))]
    index = {
        "__kind__": "wids-shard-index-v1", "wids_version": 1,
        "shardlist": [{"url": name, "nsamples": shard} for name in names],
    }  # fmt: skip
    path = folder / f"{sources}.json"
    path.write_text(json.dumps(index), encoding="utf-8")
    return f"file://{path}"


def import_size(folder: Path, shards: Path, size: Size, shard: int) -> list[Imported]:
    """Import a dataset into a new ledger and store, and return what each worker measured."""
    folder.mkdir()
    with closing(Ledger(f"sqlite:///{folder / 'ledger.db'}")) as ledger:
        ledger.datasets.create("demo", None)
        request = ImportCreate(url=index_of(shards, size.sources, shard))
        ledger.imports.create("demo", request, "webdataset")
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(size.workers, spawn) as pool:
        working = [pool.submit(_import, folder, shards) for _ in range(size.workers)]
        found = [each.result() for each in working]
    with closing(Ledger(f"sqlite:///{folder / 'ledger.db'}")) as ledger:
        dataset = ledger.datasets.get("demo")
        assert dataset.n_sources == size.sources, dataset.imported
    return found


def _import(folder: Path, shards: Path) -> Imported:
    with closing(Ledger(f"sqlite:///{folder / 'ledger.db'}")) as ledger:
        store = BlobStore(str(folder / "store"))
        importer = Importer(
            ledger, store, Storage([f"file://{shards}/"]), Quotas.of(GatewaySettings()), lease_seconds=30.0,
            most_shards=100_000,
        )  # fmt: skip
        rest, start = peak_mb(), time.perf_counter()
        asyncio.run(_import_all(importer, ledger))
        return Imported(time.perf_counter() - start, rest, peak_mb())


async def _import_all(importer: Importer, ledger: Ledger) -> None:
    while not await asyncio.to_thread(ledger.imports.has_ended, "demo"):
        if (leased := await importer.lease()) is not None:
            await importer.work(leased)
        else:
            await asyncio.sleep(LOOK_SECONDS)


def plan_size(folder: Path) -> tuple[Made, Made]:
    """Create a run on the dataset, let a worker plan the rest, and return what both measured."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn) as pool:
        created = pool.submit(create_run, folder).result()
    with ProcessPoolExecutor(1, spawn) as pool:
        return created, pool.submit(plan_rest, folder, created.run_id).result()


def _rate(size: Size, found: Sequence[Imported]) -> LoadRow:
    rate = size.sources / max(each.seconds for each in found)
    who = "1 worker" if size.workers == 1 else f"{size.workers} workers"
    return _row(f"{size.sources:,} images are imported by {who}", "images/s", rate, n=size.sources)


def _planned(size: Size, created: Made, planned: Made) -> Iterator[LoadRow]:
    items = size.sources * PER_SOURCE
    what = f"{items:,} items from an index of {size.sources:,} images"
    yield _row(f"{what} are planned", "items/s", items / (created.seconds + planned.seconds), n=items)
    for who, made in (("gateway", created), ("planner", planned)):
        yield _row(f"{what}: memory of the {who} above rest", "MB", made.above_rest)


def _slope(who: str, points: Sequence[tuple[float, float]], *, judged: bool) -> LoadRow:
    # Between neighbours: what a process takes once for all is in none of them.
    slopes = [1e6 * (more - less) / (large - small) for (small, less), (large, more) in pairwise(points)]
    last = slopes[-1]
    return LoadRow(
        group=GROUP, name=f"memory of the {who} by size", meets=("M1",), unit="bytes a source", value=last,
        low=min(slopes), high=max(slopes), n=len(slopes), target=SLOPE if judged else None,
    )  # fmt: skip


def _row(name: str, unit: str, value: float, *, n: int = 1) -> LoadRow:
    return LoadRow(
        group=GROUP, name=name, meets=("M1",), unit=unit, value=value, low=value, high=value, n=n
    )  # fmt: skip
