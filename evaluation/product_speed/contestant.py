"""One stress test on a stack of its own, run as a program within one tree of the product.

`python contestant.py STATE PORT SERVICES_PORT OUT [DEMO]` starts a stack with a new state folder, tests four
classifiers on the demo's images, and writes what it took. With DEMO, the folder of an earlier tree's demo,
the stack is that tree's. It imports nothing that both trees do not have. All images are screened and nothing
is confirmed, because the earlier tree confirms nothing: so the items are the same.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CLASSIFIERS = ("unbiased-resnet", "leaning-resnet", "leaning-vit", "leaning-convnext")
EDITS, SEED = 5, 0
TICKS = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")
EARLIER_PACKAGE = "faultline"
"""The SDK's package in the earlier tree."""


def _stat(pid: int) -> list[str]:
    # The name, which may hold blanks, ends with the last bracket.
    return (PROC / str(pid) / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()


def descendants(root: int) -> Iterator[int]:
    """Yield a process and all that it started, directly or not."""
    parents = dict[int, int]()
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(_stat(int(entry.name))[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    level = [root]
    while level:
        yield from level
        level = [pid for pid, parent in parents.items() if parent in level]


def summed(root: int, read: Callable[[int], float]) -> float:
    """Return the sum of a figure over a process and its descendants."""
    total = 0.0
    for pid in descendants(root):
        try:
            total += read(pid)
        except (FileNotFoundError, ProcessLookupError):
            # It has ended since it was listed; its parent's number includes it.
            continue
    return total


def processor_seconds(root: int) -> float:
    """Return the processor time of a process, of its descendants, and of those of them that have ended.

    Not that of the machine: what else it does would count.
    """
    return summed(root, lambda pid: sum(int(field) for field in _stat(pid)[11:15]) / TICKS)


def stack_of(state: Path, port: int, services_port: int, demo: str | None) -> Any:
    """Return the stack of this tree."""
    if demo is None:
        stack = importlib.import_module("counterpose._stack.stack")
        return stack.Stack(state=state, port=port, services_port=services_port)
    sys.path.insert(0, demo)
    return importlib.import_module("stack").Stack(
        state=state, port=port, services_port=services_port, programs=Path(demo).parent / "programs"
    )


def main(state: str, port: str, services_port: str, out: str, demo: str | None = None) -> None:
    """Start, test, stop, write."""
    client_of = importlib.import_module("counterpose" if demo is None else EARLIER_PACKAGE).Client
    stack, own = stack_of(Path(state), int(port), int(services_port), demo), os.getpid()
    began, worked = time.monotonic(), processor_seconds(own)
    try:
        stack.up()
        ready, ready_worked = time.monotonic(), processor_seconds(own)
        confirmed: dict[str, Any] = {} if demo is not None else {"confirm": False}
        with client_of(stack.url) as client:
            run = client.stress_tests.create(
                dataset="demo", classifiers=CLASSIFIERS, max_edits_per_image=EDITS, seed=SEED, **confirmed
            )
            run.wait()
            counts = run.run.request_counts.model_dump()
        ended, ended_worked = time.monotonic(), processor_seconds(own)
    finally:
        stack.down()
    told = {
        "start_s": ready - began,
        "run_s": ended - ready,
        "start_processor_s": ready_worked - worked,
        "run_processor_s": ended_worked - ready_worked,
        "counts": counts,
    }
    Path(out).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
