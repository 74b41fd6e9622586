"""`make bench-product`: run the earlier and the present product in turn, and write the ratios."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tqdm import tqdm

from evaluation.benchmarks.interleaved import ratios
from evaluation.benchmarks.machine import this_machine
from evaluation.benchmarks.report import EditorBenchmark, Row, at_least, at_most, row
from evaluation.paths import RESULTS, ROOT
from evaluation.product_speed import contestant
from evaluation.product_speed.earlier import BASELINE, Tree, unpacked

OUT = RESULTS / "product.json"
TWICE = at_least(2.0)
PORTS = (18080, 18101)
"""Not the defaults, which another stack of this machine may use."""
PER_CLASS = 6
"""Images of each class in the demo's dataset."""
Taken = dict[str, float]


def taken(tree: Tree) -> tuple[Taken, dict[str, int]]:
    """Run the demo's stress test from a cold start; return its times and the number of items by state."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "taken.json"
        command = [
            sys.executable,
            str(Path(contestant.__file__)),
            f"{folder}/state",
            *map(str, PORTS),
            str(out),
        ]
        environment = os.environ | {"PYTHONPATH": tree.path, "OMP_NUM_THREADS": "1"}
        demo = [] if tree.demo is None else [str(tree.demo)]
        subprocess.run([*command, *demo], env=environment, check=True, stdout=sys.stderr)
        told = json.loads(out.read_bytes())
    counts = told.pop("counts")
    return told, counts


def taken_bare() -> tuple[Taken, dict[str, int]]:
    """Run the same stress test over the engines alone."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "taken.json"
        command = [sys.executable, "-m", "evaluation.product_speed.bare_engines", str(PER_CLASS), str(out)]
        subprocess.run(
            command, env=os.environ | {"OMP_NUM_THREADS": "1"}, cwd=ROOT, check=True, stdout=sys.stderr
        )
        told = json.loads(out.read_bytes())
    counts = told.pop("counts")
    return told, counts


def overhead(laps: dict[str, list[Taken]], items: dict[str, dict[str, int]], commit: str) -> list[Row]:
    """Return what services and gateway add to an item, beside the engines alone."""
    each = {
        name: [lap["run_processor_s"] / items[name]["total"] for lap in some] for name, some in laps.items()
    }
    added = [served - bare for served, bare in zip(each["present"], each["bare"], strict=True)]
    share = [one / before for one, before in zip(added, each["earlier"], strict=True)]
    return [
        row("E9", "ms of processor time an item that services and gateway add to the engines alone",
            [1e3 * one for one in added], at_most(15.0), advisory=True),
        row("E9", f"the same beside the processor time of an item of {commit}", share, at_most(0.05),
            advisory=True),
        row("E9", "ms of processor time an item, engines alone", [1e3 * one for one in each["bare"]],
            advisory=True),
    ]  # fmt: skip


def rows(laps: dict[str, list[Taken]], commit: str) -> list[Row]:
    """Return how many times as fast the present product is, round by round."""
    before, now = laps["earlier"], laps["present"]
    found = []
    for name, parts in {
        "from a cold start to the end of the run": ("start", "run"),
        "the run alone": ("run",),
        "the start alone": ("start",),
    }.items():
        for clock, key in {"wall": "{}_s", "processor": "{}_processor_s"}.items():
            slow, fast = (
                [sum(each[key.format(part)] for part in parts) for each in some] for some in (before, now)
            )
            target = TWICE if parts == ("start", "run") and clock == "wall" else None
            measure = f"times as fast as {commit} by {clock} time, {name}"
            found.append(row("P1", measure, ratios(slow, fast), target, advisory=True))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run both in turn."""
    parser = argparse.ArgumentParser(prog="make bench-product", description=__doc__)
    parser.add_argument("--pairs", type=int, default=3, help="how often each runs")
    parser.add_argument("--commit", default=BASELINE, help="the earlier commit")
    parser.add_argument("--out", type=Path, default=OUT, help="result file")
    given = parser.parse_args(arguments)
    trees = {"earlier": unpacked(given.commit, ROOT / "build" / "earlier"), "present": Tree(ROOT)}
    runs = {name: partial(taken, tree) for name, tree in trees.items()} | {"bare": taken_bare}
    laps: dict[str, list[Taken]] = {name: [] for name in runs}
    items: dict[str, dict[str, int]] = {}
    for _ in tqdm(range(given.pairs), desc="pair"):
        for name, run in runs.items():
            told, items[name] = run()
            laps[name].append(told)
            sys.stderr.write(f"{name}: {told} {items[name]}\n")
    settings: dict[str, str | int | float | list[float]] = {
        "commit": given.commit,
        **{f"{name} items": counts["total"] for name, counts in items.items()},
        **{
            f"{name} seconds": [each.get("start_s", 0.0) + each["run_s"] for each in laps[name]]
            for name in laps
        },
    }
    report = EditorBenchmark(
        machine=this_machine(),
        settings=settings,
        rows=[*rows(laps, given.commit), *overhead(laps, items, given.commit)],
    )
    given.out.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
