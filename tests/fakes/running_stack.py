"""The whole system as processes of this machine: Ray, the five services, gateway and worker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fakes.postgres import free_port
from fakes.process_trees import descendants, title
from faultline._stack import DEMO_DATASET, Stack

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
    sockets = {
        link.readlink().name.removeprefix("socket:[").removesuffix("]")
        for pid in descendants(stack.pids()["services"])
        for link in _links(Path(f"/proc/{pid}/fd"))
    }
    lines = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text(encoding="utf-8").splitlines()
    ]
    listens = "0A"
    return {
        int(fields[1].rpartition(":")[2], 16)
        for fields in lines
        if len(fields) > 9 and fields[3] == listens and fields[9] in sockets
    }


def _links(folder: Path) -> Iterator[Path]:
    try:
        yield from (link for link in folder.iterdir() if link.readlink().name.startswith("socket:"))
    except (FileNotFoundError, ProcessLookupError):
        return
