"""Summaries and reports of large runs: their processor time and memory, and what others see meanwhile."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import httpx
import uvicorn

from counterpose_core.blobs import BlobStore
from counterpose_core.types import RunKind
from counterpose_gateway.app import create_app
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.methods import METHODS
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.settings import GatewaySettings
from counterpose_gateway.summaries.column_keeper import KeepColumns
from counterpose_gateway.summaries.columns import ColumnFolder
from counterpose_gateway.summaries.processes import recorded_runs, summary_processes
from counterpose_gateway.summaries.summaries import Report, Summary
from counterpose_processes.ports import free_port
from counterpose_processes.system import return_freed_memory
from evaluation.load.measuring import Load, quantile, row
from evaluation.load.recorded import load_recorded
from evaluation.load.report import Growth, LoadRow
from fakes.gateway import FakeHealth
from fakes.ledgers import migrated_file
from fakes.ports import fake_services
from fakes.world import FakeWorld, fake_suite

P = ParamSpec("P")
V = TypeVar("V")

GROUP = "summaries"
READERS = 10
COLUMN_BYTES = 10_000_000_000
ITEMS_OF_PAIRS = 7_000
"""The fakes make five edits of each image beside its two controls: 5,000 pairs of an edit and its control."""

MEGABYTES_OF_A_MILLION = 600.0
SECONDS_OF_100_000 = 20.0
POLL_MS = 100.0
REPORT_SECONDS, REPORT_MEGABYTES = 60.0, 1000.0
_READY_SECONDS = 60.0


@dataclass(frozen=True)
class Taken:
    """What a task took in a process of its own; ``megabytes`` is its peak above what it had at rest."""

    processor: float
    megabytes: float


def measure(load: Load) -> Iterator[LoadRow | Growth]:
    """Yield the rows of summaries of growing runs, of a report, and of ten readers at once."""
    seconds, megabytes = [], []
    for items in load.sizes(1_000, 10_000, 100_000, 1_000_000):
        url, run_id = recorded(load.folder / str(items), items)
        columns = ColumnFolder(load.folder / str(items) / "columns", COLUMN_BYTES)
        # As the gateway's process does while the items end, and before anybody asks for a summary.
        kept = in_process(kept_by, url, run_id, columns)
        taken = in_process(taken_by, url, run_id, columns, report=False)
        seconds.append((float(items), taken.processor))
        megabytes.append((float(items), taken.megabytes))
        if items == 100_000:
            without = in_process(taken_by, url, run_id, None, report=False)
            name = "summary of 100,000 items without column files: processor"
            yield row(GROUP, name, "s", [without.processor], meets=("H2",))
            yield row(GROUP, "columns of 100,000 items are kept: processor", "s", [kept], meets=("H2",))
            yield from readers(load.folder / "readers", url, run_id)
    yield _summary_row(seconds, "processor", "s", 100_000, SECONDS_OF_100_000)
    yield _summary_row(megabytes, "memory above rest", "MB", 1_000_000, MEGABYTES_OF_A_MILLION)
    yield Growth(group=GROUP, name="summary", size="recorded items", unit="s", points=tuple(seconds))
    yield Growth(group=GROUP, name="summary", size="recorded items", unit="MB", points=tuple(megabytes))
    url, run_id = recorded(load.folder / "pairs", ITEMS_OF_PAIRS)
    taken = in_process(taken_by, url, run_id, None, report=True)
    name = "report of 5,000 pairs, with its summary"
    # Processor time: it is what the report needs, whatever else the machine does.
    yield row(GROUP, f"{name}: processor", "s", [taken.processor], meets=("L11",), target=REPORT_SECONDS)
    yield row(GROUP, f"{name}: memory", "MB", [taken.megabytes], meets=("L11",), target=REPORT_MEGABYTES)


def _summary_row(
    points: list[tuple[float, float]], what: str, unit: str, items: int, target: float
) -> LoadRow:
    """The row of the size that has a target; where that was not measured, of the largest, without one."""
    size, value = next((point for point in points if point[0] == items), points[-1])
    met = target if size == items else None
    return row(GROUP, f"summary of {int(size):,} items: {what}", unit, [value], meets=("H2",), target=met)


def recorded(folder: Path, items: int) -> tuple[str, str]:
    """Make a ledger with a recorded run; return its address and the run."""
    folder.mkdir(parents=True)
    url = migrated_file(folder)
    ledger = Ledger(url, check_seconds=0)
    try:
        return url, asyncio.run(load_recorded(ledger, url, items))
    finally:
        ledger.close()


def in_process(task: Callable[P, V], *arguments: P.args, **options: P.kwargs) -> V:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=return_freed_memory) as process:
        return process.submit(task, *arguments, **options).result()


def kept_by(url: str, run_id: str, columns: ColumnFolder) -> float:
    """Keep the columns of a run, some parts at a time; return the processor's seconds."""
    runs = recorded_runs(url, "memory://load", columns)
    start = time.process_time()
    keep_columns = STRESS_TEST.keep_columns
    assert keep_columns is not None
    while KeepColumns(keep_columns, run_id)(runs):
        pass
    return time.process_time() - start


def taken_by(
    url: str, run_id: str, columns: ColumnFolder | None, *, report: bool, kind: RunKind = "stress-test"
) -> Taken:
    """Sum up a run in this process, and write its report if asked; return what that took."""
    runs = recorded_runs(url, "memory://load", columns)
    rest, start = _peak_megabytes(), time.process_time()
    method = METHODS[kind]
    summing = Summary(method, run_id, method.view({}))
    (Report(summing) if report else summing)(runs)
    return Taken(time.process_time() - start, _peak_megabytes() - rest)


def _peak_megabytes() -> float:
    # Not by getrusage, which keeps the peak of the process that started this one.
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def readers(folder: Path, url: str, run_id: str) -> Iterator[LoadRow]:
    """Yield what ten readers of one summary cost beside one, and how long status polls take meanwhile."""
    one, _ = _read(folder / "one", url, run_id, 1)
    ten, polls = _read(folder / "ten", url, run_id, READERS)
    name = "ten readers of one summary, in computations of one reader"
    yield row(GROUP, name, "computations", [ten / one], meets=("H2",), target=1.5)
    milliseconds = [1000.0 * each for each in polls]
    figures = {"value": quantile(milliseconds, 0.99), "meets": ("H2",), "target": POLL_MS}
    yield row(GROUP, "status polls while ten read one summary, p99", "ms", milliseconds, **figures)


def _read(folder: Path, url: str, run_id: str, number: int) -> tuple[float, list[float]]:
    """Have so many clients read one summary of a new gateway; return processor seconds of its processes."""
    port = free_port()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(url, folder, port))
    server.start()
    try:
        return asyncio.run(_readers(f"http://127.0.0.1:{port}", run_id, number, server.pid or 0))
    finally:
        server.terminate()
        server.join()


async def _readers(address: str, run_id: str, number: int, server: int) -> tuple[float, list[float]]:
    path = f"/v1/runs/{run_id}"
    async with httpx.AsyncClient(base_url=address, timeout=600.0) as client:
        await until_ready(client)
        reading = [asyncio.create_task(client.get(f"{path}/summary")) for _ in range(number)]
        polls: list[float] = []
        while not all(each.done() for each in reading):
            start = time.perf_counter()
            (await client.get(path)).raise_for_status()
            polls.append(time.perf_counter() - start)
            await asyncio.sleep(0.02)
        for each in reading:
            each.result().raise_for_status()
        return _processor_seconds_below(server), polls


async def until_ready(client: httpx.AsyncClient) -> None:
    end = time.monotonic() + _READY_SECONDS
    while True:
        try:
            await client.get("/healthz")
        except httpx.ConnectError:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.1)
        else:
            return


def _processor_seconds_below(parent: int) -> float:
    """Processor seconds of the processes that ``parent`` started and that still live."""
    total = 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def serve(url: str, folder: Path, port: int) -> None:
    """Serve a ledger by a gateway with processes for summaries until ended."""
    settings = GatewaySettings(database_url=url, store_url=str(folder / "store"))
    app = create_app(
        settings,
        ledger=Ledger(url, check_seconds=0),
        store=BlobStore(settings.store_url),
        services=fake_services(FakeWorld()),
        suite=fake_suite(),
        health=FakeHealth(),
        joined=summary_processes(settings),
    )
    config = uvicorn.Config(app, host="127.0.0.1", port=port, access_log=False, log_config=None)
    asyncio.run(uvicorn.Server(config).serve())
