"""How fast a worker goes through items whose work costs nothing or 100 ms, and whether runs share it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.records.items import LeasedGroup
from counterpose_gateway.records.tenants import DEFAULT_TENANT
from counterpose_gateway.worker.worker import LedgerRecorder, Worker
from evaluation.load.measuring import Load, row
from evaluation.load.report import LoadRow
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import create_run, done

HANDS = 4
"""As many as a worker has unless told otherwise."""

ITEM_SECONDS = 0.1
ROUNDS, ROUNDS_QUICK = 13, 1
"""How many groups of 8 items each hand works through."""

REPEATS = 3
ALONE = {"edit_types": ["object"], "max_edits_per_image": 1, "lance_r_edits_per_image": 0}
SIXTEEN = {"max_edits_per_image": 14, "lance_r_edits_per_image": 0}


def measure(load: Load) -> Iterator[LoadRow]:
    """Yield items a second without work, the wall time of work, and the wait of a small run."""
    sources = 4 if load.quick else 60
    for name, asked, hands, target in (
        ("one hand, groups of 3 items", ALONE, 1, 8.0),
        (f"{HANDS} hands, groups of 16 items", SIXTEEN, HANDS, 60.0),
    ):
        rates = [asyncio.run(_free(_folder(load), asked, hands, sources)) for _ in range(REPEATS)]
        what = f"Zero-cost pipeline, {name}"
        yield row("pipeline", what, "items/s", rates, meets=("L3",), target=target, side="at least")
    targets: dict[int, float | None] = {8: 1.05, 1: None}
    for per_source, most in targets.items():
        # Whole rounds of all hands: in a last round of some, the others' rest would count as overhead.
        items = ROUNDS_QUICK * HANDS * 8 if load.quick else ROUNDS * HANDS * 8
        ratios = [asyncio.run(_overhead(_folder(load), items, per_source))]
        what = f"Wall time of 100 ms an item over compute / {HANDS} hands, groups of {per_source}"
        yield row("pipeline", what, "times", ratios, meets=("L4",), n=items, target=most)
    waits = [asyncio.run(_shared(_folder(load), 100 if load.quick else 1_000)) for _ in range(REPEATS)]
    what = "A run of 10 items beside one of 1,000, against alone"
    yield row("pipeline", what, "times", waits, meets=("L7",), target=3.0)
    runs = 20 if load.quick else 100
    waits = [asyncio.run(_shared(_folder(load), 100, runs, "acme")) for _ in range(REPEATS)]
    what = f"A tenant's run of 10 items beside {runs} of another tenant, against alone"
    yield row("pipeline", what, "times", waits, meets=("L7",), target=3.0)


def _folder(load: Load) -> Path:
    return Path(mkdtemp(dir=load.folder))


async def _free(folder: Path, asked: dict[str, Any], hands: int, sources: int) -> float:
    """Return the items a second of a stress test over services that answer at once."""
    async with fake_gateway(folder) as gateway:
        await gateway.upload("demo", sources // 2, ("sled", "cat"))
        body = {"dataset": "demo", "classifiers": ["steady"], "seed": 1, "confirm": False, **asked}
        answer = await gateway.http.post("/v1/stress-tests", json=body)
        answer.raise_for_status()
        start = time.perf_counter()
        await until_ended(gateway, gateway.worker(concurrency=hands), answer.json()["id"])
        return float(answer.json()["request_counts"]["total"]) / (time.perf_counter() - start)


async def _overhead(folder: Path, items: int, per_source: int) -> float:
    """Return the wall time of a run over its items' seconds divided by the hands."""
    async with fake_gateway(folder) as gateway:
        run_id = create_run(gateway.ledger, sources=items // per_source, per_source=per_source)
        start = time.perf_counter()
        await until_ended(gateway, _sleeping(gateway), run_id)
        return (time.perf_counter() - start) / (items * ITEM_SECONDS / HANDS)


async def _shared(folder: Path, items: int, runs: int = 1, tenant: str = DEFAULT_TENANT) -> float:
    """Return how long a run of 10 items takes beside long ones of a tenant, over how long it takes alone."""
    async with fake_gateway(folder) as gateway:
        taken = []
        for before in (0, items):
            for _ in range(runs if before else 0):
                create_run(gateway.ledger.of(tenant), sources=before, per_source=1)
            stop = asyncio.Event()
            working = asyncio.create_task(_sleeping(gateway).work(stop))
            # The long run has all hands when the small one comes.
            await asyncio.sleep(2 * ITEM_SECONDS)
            start = time.perf_counter()
            await _ended(gateway, create_run(gateway.ledger, sources=10, per_source=1))
            taken.append(time.perf_counter() - start)
            stop.set()
            await working
        return taken[1] / taken[0]


async def until_ended(gateway: FakeGateway, worker: Worker, run_id: str) -> None:
    stop = asyncio.Event()
    working = asyncio.create_task(worker.work(stop))
    await _ended(gateway, run_id)
    stop.set()
    await working


async def _ended(gateway: FakeGateway, run_id: str) -> None:
    # The product's own wait looks twice a second, which would round the figures; and a look at the whole
    # run takes a millisecond of the processor, which would slow what is measured.
    while not _has_ended(gateway, run_id):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def _has_ended(gateway: FakeGateway, run_id: str) -> bool:
    glance = gateway.ledger.status.glance(run_id)
    return glance is not None and glance.state in FINAL_RUN_STATES


class _SleepingWorker(Worker):
    """Takes its time for each item and then records all of a group."""

    async def _run_workflow(self, group: LeasedGroup, record: LedgerRecorder) -> None:
        await asyncio.sleep(ITEM_SECONDS * len(group.items))
        await record.ended([(item, done()) for item in group.items])


def _sleeping(gateway: FakeGateway) -> Worker:
    return _SleepingWorker(
        "worker", ledger=gateway.ledger, store=gateway.store, services=gateway.services,
        concurrency=HANDS, lease_seconds=30.0, planner=gateway.planner(),
    )  # fmt: skip
