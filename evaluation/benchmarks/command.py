"""The command line of `make bench`, and the files it writes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import torch
from tqdm import tqdm

from evaluation.benchmarks.bench import Bench
from evaluation.benchmarks.device import rows as device_rows
from evaluation.benchmarks.device.networks import Model
from evaluation.benchmarks.gates import (
    evaluations,
    exactness,
    memory,
    reconstruction,
    step_engine,
    synchronisation,
    text_to_image,
    wall_clock,
)
from evaluation.benchmarks.machine import this_machine
from evaluation.benchmarks.report import EditorBenchmark, Row
from evaluation.benchmarks.sizes import SIZES, Size
from evaluation.benchmarks.workload import miniature
from evaluation.paths import RESULTS

OUT = RESULTS / "editor.json"

GATES: dict[str, Callable[[Bench], list[Row]]] = {
    "E1": exactness.rows,
    "E2": evaluations.rows,
    "E3": reconstruction.rows,
    "E4": wall_clock.rows,
    "E6": synchronisation.rows,
    "E7": memory.rows,
    "E8": step_engine.rows,
    "T1": text_to_image.rows,
}


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="make bench", description="Compare the editor with the reference and with diffusers."
    )
    parser.add_argument("--size", choices=get_args(Size), default="full", help="how much to measure")
    parser.add_argument(
        "--only",
        default=",".join(GATES),
        help="gates to measure, such as E2,E3; the rows of other gates are kept",
    )
    parser.add_argument(
        "--model", choices=get_args(Model), help="measure the speed of this architecture instead"
    )
    parser.add_argument(
        "--device", default="cpu", help="device for --model; on a CPU the architecture is reduced"
    )
    parser.add_argument("--compile", action="store_true", help="compile the network of --model first")
    parser.add_argument("--out", type=Path, help="result file")
    given = parser.parse_args(arguments)
    if given.device != "cpu" and given.model is None:
        parser.error("--device is for --model; the gates are measured on a CPU")
    if given.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error(f"there is no device {given.device!r} here")
    return given


def measured(size: Size, gates: Sequence[str], out: Path) -> None:
    """Measure gates on this machine, on one thread, and write each as soon as it is there.

    Rows of other gates stay where they were measured on the same machine in the same settings.
    """
    torch.set_num_threads(1)
    bench = Bench(SIZES[size], *miniature())
    settings = {"size": size, "model": "miniature", **asdict(bench.sizes)}
    report = EditorBenchmark(machine=this_machine(), settings=settings, rows=[])
    found = earlier_rows(out, report)
    for gate in tqdm(gates, desc="gate"):
        found[gate] = GATES[gate](bench)
        rows = [row for known in GATES for row in found.get(known, [])]
        write(report.model_copy(update={"rows": [*rows, *device_rows.open_rows()]}), out)


def earlier_rows(out: Path, report: EditorBenchmark) -> dict[str, list[Row]]:
    """Read the rows by gate that an earlier run of the same kind left, without those that are open."""
    if not out.exists():
        return {}
    earlier = EditorBenchmark.model_validate_json(out.read_bytes())
    if (earlier.machine, earlier.settings) != (report.machine, report.settings):
        return {}
    found: dict[str, list[Row]] = {}
    for row in earlier.rows:
        if row.value is not None:
            found.setdefault(row.gate, []).append(row)
    return found


def measured_on(model: Model, device: torch.device, *, compiled: bool) -> Iterator[EditorBenchmark]:
    """Measure an architecture, in full on an accelerator, shrunk on a CPU, report by longer report."""
    small = device.type == "cpu"
    report = EditorBenchmark(
        machine=this_machine(str(device)),
        settings={"model": model, "device": device.type, "size": "small" if small else "published"},
        rows=[],
    )
    for rows in device_rows.measured(model, device, small=small, compiled=compiled):
        report = report.model_copy(update={"rows": [*report.rows, *rows]})
        yield report


def write(report: EditorBenchmark, out: Path) -> None:
    """Write the figures."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write."""
    given = parsed(arguments)
    if given.model is None:
        measured(given.size, given.only.split(","), given.out or OUT)
    else:
        out = given.out or OUT.with_name(f"{given.model}-{given.device}.json")
        for report in measured_on(given.model, torch.device(given.device), compiled=given.compile):
            write(report, out)
