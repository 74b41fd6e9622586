"""The whole system as processes of this machine: Ray, the five services, gateway and worker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from counterpose._stack import DEMO_DATASET, Stack
from counterpose._stack.record import ProcessName
from counterpose_processes.ports import free_port
from fakes.listening import Listener, listeners
from fakes.process_trees import descendants, title

SOURCES_PER_CLASS = 1


@contextmanager
def running_stack(folder: Path) -> Iterator[Stack]:
    """Start a stack in ``folder`` on free ports; stop it and check that its launcher cleaned up."""
    stack = Stack(folder, port=free_port(), services_port=free_port())
    try:
        stack.up(lambda datasets: datasets.register_demo(DEMO_DATASET, SOURCES_PER_CLASS))
        yield stack
    finally:
        stopped = stack.down()
    assert "services" in stopped
    # The launcher removes it last of all: a launcher that was killed leaves it.
    assert not (folder / "services.json").exists()


def replica_of(stack: Stack, service: str) -> int | None:
    """The process of a service's replica below this launcher: other clusters have some of the same name."""
    for pid in descendants(stack.pids()["services"]):
        if title(pid).startswith(f"ray::ServeReplica:{service}"):
            return pid
    return None


def kill_replica(stack: Stack, service: str) -> int:
    """Kill a service's replica and return its pid."""
    pid = replica_of(stack, service)
    assert pid is not None, f"no replica of {service!r} below the launcher"
    os.kill(pid, signal.SIGKILL)
    return pid


def listening_ports(stack: Stack) -> set[int]:
    """The TCP ports on which the launcher's processes listen."""
    return {each.port for each in listens(stack, "services")}


def listens(stack: Stack, process: ProcessName) -> set[Listener]:
    """Where one of the stack's processes listens, with all that it has started."""
    pid = stack.pids()[process]
    return listeners(pid, *descendants(pid))
