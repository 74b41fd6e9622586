"""One cold start of a stack, run as a program within one tree of the product.

`python -m evaluation.product_speed.cold_start STATE PORT SERVICES_PORT OUT [DEMO]` starts a stack with a new
state folder, asks for a first prediction and a first edit, lets it rest, and writes what all that took. With
DEMO, the folder of an earlier tree's demo, the stack is that tree's. It imports nothing of the product that
both trees do not have.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from evaluation.product_speed.contestant import PROC, descendants, processor_seconds, stack_of, summed

SETTLE_S, IDLE_S = 10.0, 30.0
"""How long a stack is left alone before its idle time is measured, and how long that is measured."""
CLASSIFY_PATH, EDIT_PATH = "classifiers/v1/classify", "editor/v1/edit"
CLASSIFIER = "unbiased-resnet"
EDIT = {"caption": "a red ball on grass", "edited_caption": "a blue ball on grass"}
PRESET = {"steps": 4, "self_replace": [0.5]}
"""A short edit: what is measured is how long the first one waits, not how fast the editor is."""


def _of_others(own: int) -> float:
    """Return the processor time without this process's, which only measures."""
    return processor_seconds(own) - time.process_time()


def memory_bytes(root: int) -> float:
    """Return the memory of a process's descendants; what several share counts once (PSS)."""

    def of(pid: int) -> float:
        if pid == root:
            return 0.0
        rolled = (PROC / str(pid) / "smaps_rollup").read_text(encoding="utf-8")
        return 1024.0 * int(rolled.split("\nPss:", 1)[1].split()[0])

    return summed(root, of)


def first_answers(state: Path, services_port: int) -> None:
    """Wait for the answers to a first prediction and a first edit."""
    import httpx

    from counterpose_core.blobs import BlobStore

    folder = state / "datasets" / "demo"
    image, classes = (
        min(folder.rglob("*.png")),
        sorted(each.name for each in folder.iterdir() if each.is_dir()),
    )
    ref = BlobStore(str(state / "store")).put(image.read_bytes())
    headers = {"x-counterpose-secret": (state / "secret").read_text(encoding="utf-8").strip()}
    bodies: dict[str, dict[str, Any]] = {
        CLASSIFY_PATH: {"classifier": CLASSIFIER, "images": [ref], "classes": classes},
        EDIT_PATH: {"items": [{"image": ref, **EDIT}], "preset": PRESET},
    }
    with httpx.Client(base_url=f"http://127.0.0.1:{services_port}", headers=headers, timeout=300) as client:
        for path, body in bodies.items():
            answer = client.post(path, json=body)
            answer.raise_for_status()
            outcome = answer.json()["outcomes"][0]
            if outcome.get("value") is None:
                raise SystemExit(f"{path} did not answer: {outcome}")


def main(state: str, port: str, services_port: str, out: str, demo: str | None = None) -> None:
    """Start, ask, rest, stop, write."""
    stack, own = stack_of(Path(state), int(port), int(services_port), demo), os.getpid()
    began, worked = time.monotonic(), processor_seconds(own)
    try:
        stack.up()
        up = time.monotonic()
        first_answers(Path(state), int(services_port))
        ready, ready_worked = time.monotonic(), processor_seconds(own)
        time.sleep(SETTLE_S)
        rested, rested_worked = time.monotonic(), _of_others(own)
        time.sleep(IDLE_S)
        idle = (_of_others(own) - rested_worked) / (time.monotonic() - rested)
        memory, processes = memory_bytes(own), len(list(descendants(own))) - 1
    finally:
        stack.down()
    taken = {
        "up_s": up - began,
        "ready_s": ready - began,
        "ready_processor_s": ready_worked - worked,
        "memory_bytes": memory,
        "processes": processes,
        "idle_share": idle,
    }
    Path(out).write_text(json.dumps(taken), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
