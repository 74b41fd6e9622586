"""One stress test on a stack of its own, run as a program within one tree of the product.

`python contestant.py STATE PORT SERVICES_PORT OUT [DEMO]` starts a stack with a new state folder, tests four
classifiers on the demo's images, and writes what it took. With DEMO, the folder of an earlier tree's demo,
the stack is that tree's. It imports nothing that both trees do not have. All images are screened and nothing
is confirmed, because the earlier tree confirms nothing: so the items are the same.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

CLASSIFIERS = ("unbiased-resnet", "leaning-resnet", "leaning-vit", "leaning-convnext")
EDITS, SEED = 5, 0
EARLIER_PACKAGE = "faultline"
"""The SDK's package in the earlier tree."""


def processor_seconds() -> float:
    """Return the seconds that all processors of the machine have worked since it started."""
    fields = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:]
    user, nice, system = (int(field) for field in fields[:3])
    return (user + nice + system) / 100


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
    stack = stack_of(Path(state), int(port), int(services_port), demo)
    began, worked = time.monotonic(), processor_seconds()
    try:
        stack.up()
        ready, ready_worked = time.monotonic(), processor_seconds()
        confirmed: dict[str, Any] = {} if demo is not None else {"confirm": False}
        with client_of(stack.url) as client:
            run = client.stress_tests.create(
                dataset="demo", classifiers=CLASSIFIERS, max_edits_per_image=EDITS, seed=SEED, **confirmed
            )
            run.wait()
            counts = run.run.request_counts.model_dump()
        ended, ended_worked = time.monotonic(), processor_seconds()
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
