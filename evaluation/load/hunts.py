"""Bug hunts: status and summary of large ones, and how much of the generator's time a hunt uses."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from counterpose_processes.ports import free_port
from evaluation.load.hunt_pace import paces
from evaluation.load.measuring import Load, quantile, row
from evaluation.load.recorded_hunts import load_recorded_hunt, written_hunt
from evaluation.load.report import Growth, LoadRow
from evaluation.load.summaries import in_process, serve, taken_by, until_ready
from fakes.ledgers import migrated_file

GROUP = "hunts"
SUMMARY_SECONDS, STATUS_MS = 5.0, 50.0
READS, READS_QUICK = 1_000, 100


def hunts(load: Load) -> Iterator[LoadRow | Growth]:
    """Yield status reads and summaries of growing hunts, and the rates of hunts beside their generator's."""
    seconds, megabytes = [], []
    sizes, written = load.sizes(1_000, 10_000, 100_000), asyncio.run(written_hunt())
    for samples in sizes:
        folder = load.folder / str(samples)
        folder.mkdir()
        url = migrated_file(folder)
        run_id = load_recorded_hunt(url, written, samples)
        taken = in_process(taken_by, url, run_id, None, report=False, kind="bug-hunt")
        seconds.append((float(samples), taken.processor))
        megabytes.append((float(samples), taken.megabytes))
        if samples == sizes[-1]:
            of = f"of a hunt of {samples:,} samples"
            yield _row(f"summary {of}: processor", "s", [taken.processor], target=SUMMARY_SECONDS)
            yield _row(f"summary {of}: memory above rest", "MB", [taken.megabytes])
            yield from _asked(folder, url, run_id, of, READS_QUICK if load.quick else READS)
    yield Growth(group=GROUP, name="summary", size="recorded samples", unit="s", points=tuple(seconds))
    yield Growth(group=GROUP, name="summary", size="recorded samples", unit="MB", points=tuple(megabytes))
    yield from paces(load)


def _row(name: str, unit: str, values: Sequence[float], **given: Any) -> LoadRow:
    return row(GROUP, name, unit, values, meets=(), **given)


def _asked(folder: Path, url: str, run_id: str, of: str, reads: int) -> Iterator[LoadRow]:
    """Ask a new gateway for the status, then for the summary and the status meanwhile."""
    with _served(folder, url) as address:
        alone, summary, meanwhile = asyncio.run(_client(address, run_id, reads))
    for name, taken in ((f"status {of}, p99", alone), (f"status {of} while it is summed up, p99", meanwhile)):
        yield _row(name, "ms", taken, value=quantile(taken, 0.99), target=STATUS_MS)
    # By the clock, with the start of the process that makes it.
    yield _row(f"summary {of}: first answer", "s", [summary], target=SUMMARY_SECONDS)


@contextmanager
def _served(folder: Path, url: str) -> Iterator[str]:
    """A gateway with processes for summaries, at its address."""
    port = free_port()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(url, folder, port))
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.join()


async def _client(address: str, run_id: str, reads: int) -> tuple[list[float], float, list[float]]:
    """Return milliseconds of status reads, the seconds of the first summary, and the reads meanwhile."""
    path = f"/v1/runs/{run_id}"
    async with httpx.AsyncClient(base_url=address, timeout=600.0) as client:
        await until_ready(client)
        alone = [1000.0 * await _timed(client, path) for _ in range(reads)]
        summing, meanwhile = asyncio.create_task(_timed(client, f"{path}/summary")), list[float]()
        while not summing.done():
            meanwhile.append(1000.0 * await _timed(client, path))
            await asyncio.sleep(0.02)
        return alone, summing.result(), meanwhile


async def _timed(client: httpx.AsyncClient, path: str) -> float:
    start = time.perf_counter()
    (await client.get(path)).raise_for_status()
    return time.perf_counter() - start
