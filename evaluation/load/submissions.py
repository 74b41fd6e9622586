"""How many durable runs a gateway takes a second, with an empty ledger and with a long queue."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from urllib.request import urlopen

from evaluation.load.bulk import load_runs
from evaluation.load.databases import DATABASES, ledgers
from evaluation.load.measuring import Load, quantile, row, seconds
from evaluation.load.report import LoadRow
from evaluation.load.served import served

CALLERS = (1, 8, 32)
SECONDS, QUEUED = 8.0, 10_000
QUICK = (2.0, 500)
"""Seconds and queued runs of a quick measurement."""
WARMING, READS = 20, 40
A_SECOND = 100.0
P99_MS = 250.0

BODY = {
    "dataset": "demo", "classifiers": ["steady"], "seed": 1, "limit": 1, "edit_types": ["object"],
    "max_edits_per_image": 1, "lance_r_edits_per_image": 0, "confirm": False,
}  # fmt: skip
"""A run of three items: an edit, its placebo and its source's reconstruction."""


def measure(load: Load) -> Iterator[LoadRow]:
    """Yield submissions a second and their slowest hundredth."""
    span, queued = QUICK if load.quick else (SECONDS, QUEUED)
    for database in DATABASES:
        with (
            ledgers(load.folder, database) as [(ledger, url)],
            served(url, Path(mkdtemp(dir=load.folder))) as port,
        ):
            alone = _reads(port)
            for already in (0, queued):
                if already:
                    load_runs(ledger, url, already)
                    yield from _grown(alone, _reads(port), already, database)
                for callers in CALLERS:
                    taken = asyncio.run(_submit(port, callers, span))
                    yield from _rows(f"{callers} at once, {already:,} queued before, {database}", taken)


def _reads(port: int) -> dict[str, list[float]]:
    """Return the milliseconds of reads that concern all runs."""
    found = {}
    for path in ("/readyz", "/metrics"):
        taken = seconds(lambda: urlopen(f"http://127.0.0.1:{port}{path}", timeout=30).read(), READS)  # noqa: B023
        found[path] = [each * 1000 for each in taken]
    return found


def _grown(
    before: dict[str, list[float]], after: dict[str, list[float]], queued: int, database: str
) -> Iterator[LoadRow]:
    for path, taken in after.items():
        times = statistics.median(taken) / statistics.median(before[path])
        what = f"{path} with {queued:,} runs queued against none, {database}"
        yield row("submissions", what, "times", [times], meets=("L-l",), n=READS, target=2.0)


def _rows(where: str, taken: tuple[list[float], float]) -> Iterator[LoadRow]:
    waits, passed = taken
    rate, slow = len(waits) / passed, quantile(waits, 0.99) * 1000
    figures: dict[str, Any] = {"meets": ("L2",), "n": len(waits)}
    what = f"Durable submissions, {where}"
    yield row("submissions", what, "runs/s", [rate], target=A_SECOND, side="at least", **figures)
    what = f"Slowest hundredth of submissions, {where}"
    yield row("submissions", what, "ms", [slow], target=P99_MS, **figures)


async def _submit(port: int, callers: int, span: float) -> tuple[list[float], float]:
    """Return how long each submission took, and how long all took together."""
    await asyncio.gather(*(_call(port, time.perf_counter(), WARMING // callers + 1) for _ in range(callers)))
    start = time.perf_counter()
    waits = await asyncio.gather(*(_call(port, start + span) for _ in range(callers)))
    return [wait for each in waits for wait in each], time.perf_counter() - start


async def _call(port: int, until: float, at_least: int = 1) -> list[float]:
    # By hand: a client library would take more of the machine than the gateway that is measured.
    body = json.dumps(BODY).encode()
    head = f"POST /v1/stress-tests HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    waits: list[float] = []
    while time.perf_counter() < until or len(waits) < at_least:
        start = time.perf_counter()
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        lines = answer.decode().lower().split("\r\n")
        length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
        said = await reader.readexactly(length)
        waits.append(time.perf_counter() - start)
        if " 202 " not in lines[0]:
            raise RuntimeError(f"a submission was answered {lines[0]}: {said[:200]!r}")
    writer.close()
    await writer.wait_closed()
    return waits
