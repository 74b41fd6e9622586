"""A fleet: several `counterpose-gateway work` over one PostgreSQL ledger, with services that cost nothing."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger import Ledger
from counterpose_processes.ports import free_port
from evaluation.load.fleet_services import LABEL
from evaluation.load.gateway_programs import (
    PATIENCE_SECONDS,
    Program,
    gateway_environment,
    program,
    state_folder,
)
from evaluation.load.planning import load_dataset
from fakes.gateway import fake_gateway
from fakes.postgres import PostgresServer, postgres

BODY: dict[str, Any] = {
    "dataset": "demo", "classifiers": ["steady"], "seed": 3, "max_edits_per_image": 5,
    "lance_r_edits_per_image": 1, "confirm": False,
}  # fmt: skip
A_SOURCE = 8
"""Two controls, five edits and one of LANCE-R."""
NICE = -20
"""Others' work on the machine then takes a hundredth of the processor for each of its threads."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Used:
    """Processor seconds so far: of the workers, the database and the services."""

    workers: float
    database: float
    services: float

    def __sub__(self, other: Used) -> Used:
        return Used(
            self.workers - other.workers, self.database - other.database, self.services - other.services
        )


@dataclass
class Fleet:
    """A server, a ledger on it, services, and the workers that run now."""

    server: PostgresServer
    url: str
    ledger: Ledger
    folder: Path
    services: Program
    environment: dict[str, str]
    stack: ExitStack
    workers: list[Program] = field(default_factory=list)
    _gone: float = 0.0

    def plan(self, sources: int) -> str:
        """Make a run of so many sources, and return its id; workers plan what the request leaves."""
        load_dataset(self.url, sources, (LABEL,))
        return asyncio.run(self._plan())

    async def _plan(self) -> str:
        # Its own ledger: the gateway closes what it is given.
        async with fake_gateway(self.folder, ledger=Ledger(self.url)) as gateway:
            answer = await gateway.http.post("/v1/stress-tests", json=BODY, timeout=300.0)
            answer.raise_for_status()
            found: str = answer.json()["id"]
            return found

    def start(self, workers: int, hands: int) -> None:
        """Start so many workers, each with so many hands."""
        log = self.folder / "worker.log"
        for _ in range(workers):
            command = ("counterpose_gateway.main", "work", "--concurrency", str(hands))
            running = program(*command, environment=self.environment, log=log)
            self.workers.append(self.stack.enter_context(running))

    def kill(self) -> None:
        """Kill all workers, the services and the database go on."""
        self._gone += sum(worker.processor_seconds() for worker in self.workers)
        for worker in self.workers:
            worker.kill()
        self.workers.clear()

    def calls(self) -> dict[str, int]:
        """Return how often each address of the services was called."""
        port = self.environment["COUNTERPOSE_SERVICES_URL"].rpartition(":")[2]
        found: dict[str, int] = httpx.get(f"http://127.0.0.1:{port}/calls", trust_env=False).json()
        return found

    def used(self) -> Used:
        """Return the processor seconds so far."""
        workers = self._gone + sum(worker.processor_seconds() for worker in self.workers)
        return Used(workers, server_seconds(self.server), self.services.processor_seconds())

    def ended(self, run_id: str) -> int:
        """Return how many items have ended; the total once the run has."""
        glance = self.ledger.status.glance(run_id)
        assert glance is not None
        counts = self.ledger.runs.get(run_id).request_counts
        return counts.total if glance.state in FINAL_RUN_STATES else counts.total - counts.pending


def wait_for_port(port: int) -> None:
    """Wait until somebody listens at a port of loopback."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
        else:
            return


def server_seconds(server: PostgresServer) -> float:
    """Return the processor seconds of all processes of a database server, ended ones too."""
    fields = _stat(server.process)
    own = sum(int(value) for value in fields[11:15])
    living = 0
    for process in server.processes():
        try:
            found = _stat(process)
        except OSError:
            continue
        living += int(found[11]) + int(found[12])
    return (own + living) / TICKS


def _stat(process: int) -> list[str]:
    return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()


@contextmanager
def fleet(
    folder: Path, *, seconds: float = 0.0, slots: int = 1_000, round_trip: float = 0.0, **settings: object
) -> Iterator[Fleet]:
    """Start a durable database and the services.

    Args:
        folder: a new one, for store and logs.
        seconds: how long a call to the editor takes.
        slots: how many of them run at once.
        round_trip: seconds that a message to the database and its answer take on their way from a worker.
        settings: of the workers.
    """
    state, services_port = state_folder(folder / "state"), free_port()
    with ExitStack() as stack, prioritised():
        server = stack.enter_context(postgres(durable=True))
        url = server.migrated_database()
        own = {f"COUNTERPOSE_{name.upper()}": str(value) for name, value in settings.items()}
        environment = {
            **gateway_environment(state, free_port(), services_port),
            "COUNTERPOSE_DATABASE_URL": _address(stack, url, round_trip, folder),
            "OMP_NUM_THREADS": "1", **own,
        }  # fmt: skip
        command = ("evaluation.load.fleet_services", str(state / "store"), str(services_port))
        asked = (*command, str(seconds), str(slots))
        services = stack.enter_context(program(*asked, environment=environment, log=folder / "services.log"))
        ledger = stack.enter_context(closing(Ledger(url)))
        yield Fleet(server, url, ledger, folder, services, environment, stack)


def _address(stack: ExitStack, url: str, round_trip: float, folder: Path) -> str:
    """Return the database's address for workers, as far away as asked."""
    if not round_trip:
        return url
    port, (host, database) = free_port(), url.rsplit("/", 1)
    address, target = host.rsplit(":", 1)
    command = ("evaluation.load.distant", str(port), target, str(round_trip))
    stack.enter_context(program(*command, environment={}, log=folder / "distance.log"))
    wait_for_port(port)
    return f"{address}:{port}/{database}"


@contextmanager
def prioritised() -> Iterator[None]:
    """Let this process and those it starts come before others, where the system allows it."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)
