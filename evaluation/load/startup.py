"""Group `startup`: how soon a gateway answers, and what gateway and worker hold at rest (L13)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from counterpose_processes.ports import free_port
from evaluation.load.gateway_programs import (
    Program,
    gateway_environment,
    program,
    state_folder,
    wait_until_answered,
)
from evaluation.load.measuring import Load, row
from evaluation.load.report import LoadRow

READY_SECONDS = 3.0
IDLE_MB = 250.0
REST_SECONDS = 5.0
GROUP = "startup"
MEETS = ("L13", "L-k")


def startup(load: Load) -> Iterator[LoadRow]:
    """Start `serve` and `work` some times on one ledger; the first start migrates it."""
    ready: list[float] = []
    taken: list[float] = []
    serving: list[float] = []
    working: list[float] = []
    state = state_folder(load.folder / "state")
    for _ in range(2 if load.quick else 7):
        seconds, of_processor, resident = _served(state)
        ready.append(seconds)
        taken.append(of_processor)
        serving.append(resident)
        working.append(_worked(state))
    yield row(GROUP, "a gateway's start until it answers", "s", ready, meets=MEETS, target=READY_SECONDS)
    yield row(GROUP, "the processor's time for that start", "s", taken, meets=MEETS)
    yield row(GROUP, "a gateway's memory at rest", "MB", serving, meets=MEETS, target=IDLE_MB)
    yield row(GROUP, "a worker's memory at rest", "MB", working, meets=MEETS, target=IDLE_MB)


def _served(state: Path) -> tuple[float, float, float]:
    port = free_port()
    start = time.perf_counter()
    with _gateway("serve", state, port) as serving:
        wait_until_answered(port, serving)
        taken, of_processor = time.perf_counter() - start, serving.processor_seconds()
        time.sleep(REST_SECONDS)
        return taken, of_processor, serving.resident_mb()


def _worked(state: Path) -> float:
    with _gateway("work", state, free_port()) as working:
        # It says nothing when it is ready; after this time it looks for work and finds none.
        time.sleep(2 * REST_SECONDS)
        return working.resident_mb()


def _gateway(verb: str, state: Path, port: int) -> AbstractContextManager[Program]:
    settings = gateway_environment(state, port, free_port())
    return program("counterpose_gateway.main", verb, environment=settings, log=state / f"{verb}.log")
