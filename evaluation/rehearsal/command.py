"""The command line of `make rehearse`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from evaluation.benchmarks.machine import this_machine
from evaluation.paths import ROOT
from evaluation.rehearsal.cases import CASES, chosen
from evaluation.rehearsal.rehearsing import COUNTED, Options, rehearse
from evaluation.rehearsal.report import OUT, Row, write_row

WORK = ROOT / ".rehearsal"


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="make rehearse", description="Serve published architectures at full size, with random weights."
    )
    parser.add_argument("--only", help=f"cases or services, of {', '.join(case.name for case in CASES)}")
    parser.add_argument("--device", default="cpu", help="device of the models, such as cuda")
    parser.add_argument("--steps", type=int, default=2, help="diffusion steps of an edit")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="CPU threads of a replica")
    parser.add_argument("--work", type=Path, default=WORK, help="folder of the weights: 15 GB at most")
    parser.add_argument("--keep", action="store_true", help="leave the weights there")
    parser.add_argument("--out", type=Path, default=OUT, help="result file")
    given = parser.parse_args(arguments)
    try:
        chosen(given.only)
    except ValueError as error:
        parser.error(str(error))
    return given


def main(arguments: Sequence[str] | None = None) -> None:
    """Rehearse one case after the other, and write each row as soon as it is there."""
    given = parsed(arguments)
    options = Options(
        work=given.work, device=given.device, steps=given.steps, threads=given.threads, keep=given.keep
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    failed = 0
    for case in chosen(given.only):
        row = rehearse(case, options)
        failed += row.problem is not None and not row.problem.startswith(COUNTED)
        write_row(row, this_machine(given.device), memory, given.out, [one.name for one in CASES])
        sys.stdout.write(f"{_told(row)}\n")
        sys.stdout.flush()
    if failed:
        raise SystemExit(1)


def _told(row: Row) -> str:
    if row.problem is not None:
        return f"{row.case}: {row.problem}"
    needed = (row.memory.needed or 0) / 2**30
    predicted = (row.memory.predicted or 0) / 2**30
    return (
        f"{row.case}: started in {row.start_seconds:.0f} s, answered in {row.request_seconds:.1f} s, "
        f"{needed:.2f} GiB at most, {predicted:.2f} predicted"
    )
