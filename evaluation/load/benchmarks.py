"""Summary and report of a large shift benchmark: their processor time and memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing

from counterpose_gateway.ledger import Ledger
from evaluation.load.measuring import Load, row
from evaluation.load.recorded_benchmarks import load_recorded_benchmark
from evaluation.load.report import LoadRow
from evaluation.load.summaries import in_process, taken_by
from fakes.ledgers import migrated_file

GROUP = "benchmarks"
SECONDS, MEGABYTES = 30.0, 400.0


def benchmarks(load: Load) -> Iterator[LoadRow]:
    """Yield the rows of a benchmark of 100,000 images with six classifiers."""
    for items in load.sizes(100_000):
        folder = load.folder / str(items)
        folder.mkdir(parents=True)
        url = migrated_file(folder)
        with closing(Ledger(url, check_seconds=0)) as ledger:
            run_id = asyncio.run(load_recorded_benchmark(ledger, url, items))
        for what, report in (("summary", False), ("summary and report", True)):
            taken = in_process(taken_by, url, run_id, None, report=report, kind="shift-benchmark")
            name = f"{what} of a benchmark of {items:,} images"
            yield row(GROUP, f"{name}: processor", "s", [taken.processor], meets=("H2",), target=SECONDS)
            megabytes = [taken.megabytes]
            yield row(GROUP, f"{name}: memory above rest", "MB", megabytes, meets=("H2",), target=MEGABYTES)
