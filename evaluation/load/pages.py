"""L10: pages of the items of one large run, at any depth and of a state that few items have."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import update

from counterpose_gateway.ledger.database import cursors
from counterpose_gateway.ledger.database.engine import Database
from counterpose_gateway.ledger.tables import schema
from evaluation.load.bulk import copy_items
from evaluation.load.measuring import Load, quantile
from evaluation.load.report import Growth, LoadRow
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import create_run, finish_all

PER_SOURCE = 8
DEPTHS = (0.0, 0.25, 0.5, 0.75, 0.999)
CALLS = 40
ASKED: Mapping[str, Mapping[str, str]] = {
    "pages of 100": {"limit": "100"},
    "pages of 1,000": {"limit": "1000"},
    "looks for failed ones of none": {"limit": "100", "state": "failed"},
}
PAGE_MS = 50.0


def pages(load: Load) -> Iterator[LoadRow | Growth]:
    """Yield how long a page of the items of runs of 10,000 to 1,000,000 recorded items takes."""
    points: list[tuple[float, float]] = []
    sizes = load.sizes(10_000, 100_000, 1_000_000)
    for items in sizes:
        folder = load.folder / str(items)
        folder.mkdir()
        target = PAGE_MS if items == 1_000_000 else None
        found = asyncio.run(_measured(f"sqlite:///{folder / 'ledger.db'}", load, items))
        points.append((float(items), quantile(found["pages of 100"], 0.99)))
        for name, taken in found.items():
            yield LoadRow(
                group="pages", name=f"{items:,} items, {name}: p99", meets=("L10",), unit="ms",
                value=quantile(taken, 0.99), low=min(taken), high=max(taken), n=len(taken),
                target=None if "1,000" in name else target,
            )  # fmt: skip
    yield Growth(group="pages", name="page of 100, p99", size="items", unit="ms", points=tuple(points))


async def _measured(url: str, load: Load, items: int) -> Mapping[str, Sequence[float]]:
    async with fake_gateway(load.folder / str(items)) as gateway:
        run_id = _recorded_run(gateway, url, items)
        found: dict[str, Sequence[float]] = {}
        for name, asked in ASKED.items():
            found[name] = [
                await _taken(gateway, run_id, {**asked, **_after(run_id, round(depth * items))})
                for _ in range(CALLS // 4 if load.quick else CALLS)
                for depth in DEPTHS
            ]
        return found


def _recorded_run(gateway: FakeGateway, url: str, items: int) -> str:
    run_id = create_run(gateway.ledger, sources=1, per_source=PER_SOURCE)
    finish_all(gateway.ledger)
    database = Database(url)
    with database.writing() as connection:
        copy_items(connection, run_id, PER_SOURCE, items)
        counts = update(schema.runs).where(schema.runs.c.id == run_id)
        connection.execute(counts.values(total=items, done=items))
    database.close()
    return run_id


def _after(run_id: str, ordinal: int) -> dict[str, str]:
    return {"after": cursors.write(run_id, ordinal - 1)} if ordinal else {}


async def _taken(gateway: FakeGateway, run_id: str, asked: Mapping[str, str]) -> float:
    start = time.perf_counter()
    answer = await gateway.http.get(f"/v1/runs/{run_id}/items", params=asked)
    answer.raise_for_status()
    return 1000 * (time.perf_counter() - start)
