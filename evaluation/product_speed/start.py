"""`make bench-product START=1`: start the earlier and the present product in turn; write times and memory."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from evaluation.benchmarks.interleaved import ratios
from evaluation.benchmarks.machine import this_machine
from evaluation.benchmarks.report import EditorBenchmark, Row, Target, at_least, at_most, row
from evaluation.paths import RESULTS, ROOT
from evaluation.product_speed import cold_start
from evaluation.product_speed.earlier import BASELINE, Tree, unpacked

OUT = RESULTS / "start.json"
PORTS = (18080, 18101)
"""Not the defaults, which another stack of this machine may use."""
AS_FAST, MEMORY_GB, IDLE_PERCENT = at_least(1.2), at_most(2.5), at_most(5.0)
Taken = dict[str, float]


def started(tree: Tree) -> Taken:
    """Start a tree's stack in a new state folder; return what that took and what it holds afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "taken.json"
        own = [f"{folder}/state", *map(str, PORTS), str(out), *([str(tree.demo)] if tree.demo else [])]
        subprocess.run(
            [sys.executable, "-m", cold_start.__name__, *own],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": tree.path, "OMP_NUM_THREADS": "1"},
            check=True,
            stdout=sys.stderr,
        )
        taken: Taken = json.loads(out.read_bytes())
    return taken


def rows(laps: dict[str, list[Taken]], commit: str) -> list[Row]:
    """Return how many times as fast the present product starts, and what each holds once it has."""
    before, now = laps["earlier"], laps["present"]
    clocks: dict[str, tuple[str, Target | None]] = {
        "wall time, to a first prediction and a first edit": ("ready_s", AS_FAST),
        "processor time, to a first prediction and a first edit": ("ready_processor_s", None),
        "wall time, until `up` returns": ("up_s", None),
    }
    taken = [
        row("P2", f"times as fast as {commit} by {clock}",
            ratios([lap[key] for lap in before], [lap[key] for lap in now]), target, advisory=True)
        for clock, (key, target) in clocks.items()
    ]  # fmt: skip
    for name, some, bounds in (
        ("present", now, (MEMORY_GB, IDLE_PERCENT)),
        (commit, before, (None, None)),
    ):
        taken += [
            row("P2", f"seconds to a first prediction and a first edit, {name}",
                [lap["ready_s"] for lap in some], advisory=True),
            row("P2", f"processor seconds to a first prediction and a first edit, {name}",
                [lap["ready_processor_s"] for lap in some], advisory=True),
            row("P2", f"GB of memory at rest (PSS), {name}",
                [lap["memory_bytes"] / 1e9 for lap in some], bounds[0], advisory=True),
            row("P2", f"percent of a processor at rest, {name}",
                [100 * lap["idle_share"] for lap in some], bounds[1], advisory=True),
            row("P2", f"processes, {name}", [lap["processes"] for lap in some]),
        ]  # fmt: skip
    return taken


def main(arguments: Sequence[str] | None = None) -> None:
    """Start both in turn."""
    parser = argparse.ArgumentParser(prog="make bench-product START=1", description=__doc__)
    parser.add_argument("--pairs", type=int, default=3, help="how often each starts")
    parser.add_argument("--commit", default=BASELINE, help="the earlier commit")
    parser.add_argument("--out", type=Path, default=OUT, help="result file")
    given = parser.parse_args(arguments)
    trees = {"earlier": unpacked(given.commit, ROOT / "build" / "earlier"), "present": Tree(ROOT)}
    laps: dict[str, list[Taken]] = {name: [] for name in trees}
    for _ in tqdm(range(given.pairs), desc="pair"):
        for name, tree in trees.items():
            laps[name].append(started(tree))
            sys.stderr.write(f"{name}: {laps[name][-1]}\n")
    report = EditorBenchmark(
        machine=this_machine(), settings={"commit": given.commit}, rows=rows(laps, given.commit)
    )
    given.out.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
