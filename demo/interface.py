"""``make demo-interface``: learn a user's dataset, benchmark twelve classifiers on shifts of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent))

from pydantic import BaseModel, ConfigDict

from faultline import Client, DatasetInterface, ShiftBenchmark
from faultline._progress import follow
from faultline_core.contract.dataset_interfaces import DatasetInterfaceSummary
from faultline_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from stack import Stack

HERE = Path(__file__).resolve().parent
DATASET = "user"
PER_CLASS = 24
# The miniature's captions always name a place, and what is left unsaid it draws as it likes.
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
PICTURES = 8
SEED = 0

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
    follow(run, quiet=False)
    return run


def benchmarked(client: Client, interface: DatasetInterface) -> ShiftBenchmark:
    """Benchmark the zoo on pictures of tokens, and on pictures of plain names beside them."""
    zoo = [each.name for each in client.classifiers.list().classifiers if each.name.startswith("zoo-")]
    run = client.shift_benchmarks.create(
        interface=interface.id,
        base=BASE,
        shifts=SHIFTS,
        classifiers=zoo,
        sources=["token", "class-name"],
        n=PICTURES,
        real=PER_CLASS,
        seed=SEED,
    )
    follow(run, quiet=False)
    return run


def show(url: str, out: Path = HERE) -> None:
    """Learn, benchmark, and write what came of both."""
    seconds: dict[str, float] = {}
    with Client(url, timeout=120.0) as client:
        interface = _timed("tokens", seconds, lambda: learned(client))
        bench = _timed("benchmark", seconds, lambda: benchmarked(client, interface))
        summary = bench.summary()
        told = InterfaceDemo(interface=interface.summary(), benchmark=summary, seconds=seconds)
        (out / "interface.json").write_text(told.model_dump_json(indent=2) + "\n", encoding="utf-8")
        (out / "interface.html").write_text(bench.report(), encoding="utf-8")
        sys.stdout.write(f"{summary}\n")
        # Written first: what an incomplete run did find is worth reading.
        for run in (interface, bench):
            if run.run.state != "completed":
                raise SystemExit(f"the {run.run.kind} ended {run.run.state}")


def _timed(name: str, seconds: dict[str, float], work: Callable[[], T]) -> T:
    began = time.monotonic()
    try:
        return work()
    finally:
        seconds[name] = time.monotonic() - began


def main(stack: Stack | None = None, out: Path = HERE) -> None:
    """Start what does not run yet, run the demo, stop what was started."""
    stack = stack or Stack()

    def work() -> None:
        stack.register_user_dataset(DATASET, PER_CLASS)
        show(stack.url, out)

    seconds = stack.shown(work)
    sys.stdout.write(f"demo/interface.json and demo/interface.html written in {seconds:.0f} s\n")


if __name__ == "__main__":
    main()
