"""``counterpose demo dataset-interface``: learn a dataset, benchmark twelve classifiers on shifts of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from counterpose import Client, DatasetInterface, ShiftBenchmark
from counterpose._cli.exit_code import ExitCode
from counterpose._cli.progress import follow_progress
from counterpose._cli.terminal import print_note, print_result
from counterpose._files import write_text
from counterpose._stack import DemoDatasets
from counterpose_core.contract.dataset_interfaces import DatasetInterfaceSummary
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary

DATASET = "user"
PER_CLASS = 24
# The miniature's captions always name a place, and it draws what is left unsaid as it likes.
BASE = "a photo of a <class> on the grass"
# Two backgrounds, two weathers, two styles.
SHIFTS = (
    "in the snow",
    "among the flowers",
    "a photo of a <class> on the grass at night",
    "a photo of a <class> on the grass in the fog",
    "a painting of a <class> on the grass",
    "a sketch of a <class> on the grass",
)
PER_SHIFT = 8
SEED = 0
REPORT, FIGURES = "interface.html", "interface.json"
# The benchmark's summary reads every answer of twelve classifiers.
TIMEOUT_S = 120.0

T = TypeVar("T")


class InterfaceDemo(BaseModel):
    """``demo/interface.json``: the tokens, the benchmark, and the seconds of each stage."""

    model_config = ConfigDict(frozen=True)

    interface: DatasetInterfaceSummary
    benchmark: ShiftBenchmarkSummary
    seconds: dict[str, float]


def learned(client: Client) -> DatasetInterface:
    """Learn the dataset's classes."""
    run = client.dataset_interfaces.create(dataset=DATASET, token_init="class-name", seed=SEED)
    follow_progress(run, quiet=False)
    return run


def benchmarked(client: Client, interface: DatasetInterface) -> ShiftBenchmark:
    """Benchmark the zoo on images of tokens, and on images of plain class names for comparison."""
    zoo = [each.name for each in client.classifiers.list().classifiers if each.name.startswith("zoo-")]
    run = client.shift_benchmarks.create(
        interface=interface.id,
        base=BASE,
        shifts=SHIFTS,
        classifiers=zoo,
        image_sources=["token", "class-name"],
        n=PER_SHIFT,
        real=PER_CLASS,
        seed=SEED,
    )
    follow_progress(run, quiet=False)
    return run


def images(datasets: DemoDatasets) -> None:
    """Render the dataset and register it, unless an earlier demo did."""
    datasets.register_user(DATASET, PER_CLASS)


def show(url: str, out: Path) -> ExitCode:
    """Learn, benchmark, write what came of both, and return the exit code."""
    seconds: dict[str, float] = {}
    with Client(url, timeout=TIMEOUT_S) as client:
        interface = _timed("tokens", seconds, lambda: learned(client))
        bench = _timed("benchmark", seconds, lambda: benchmarked(client, interface))
        summary = bench.summary()
        demo = InterfaceDemo(interface=interface.summary(), benchmark=summary, seconds=seconds)
        write_text(out / FIGURES, demo.model_dump_json(indent=2) + "\n")
        write_text(out / REPORT, bench.report())
        print_result(str(summary))
        # Written first: what an incomplete run did find is worth reading.
        incomplete = [run.run for run in (interface, bench) if run.run.state != "completed"]
        for run in incomplete:
            print_note(f"the {run.kind} ended {run.state}")
        return ExitCode.INCOMPLETE if incomplete else ExitCode.PASSED


def _timed(name: str, seconds: dict[str, float], work: Callable[[], T]) -> T:
    began = time.monotonic()
    try:
        return work()
    finally:
        seconds[name] = time.monotonic() - began
