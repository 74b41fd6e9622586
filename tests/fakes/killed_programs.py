"""A run in the real programs: services, gateway and worker, killed at random moments and started again."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx

from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger import Ledger
from counterpose_processes.ports import free_port
from fakes.processes import look_until

Victim = Literal["services", "serve", "work"]
VICTIMS: tuple[Victim, ...] = ("services", "serve", "work")
LEASE_SECONDS = 2.0


@dataclass
class Programs:
    """The three programs of one state folder."""

    url: str
    folder: Path
    port: int = field(default_factory=free_port)
    services_port: int = field(default_factory=free_port)
    lease_seconds: float = LEASE_SECONDS
    running: dict[Victim, subprocess.Popen[bytes]] = field(default_factory=dict)
    services: str = "fakes.services_program"
    """The module of the services."""
    world: tuple[str, ...] | None = None
    """Arguments of the services after their port; None for those of the hunted world."""
    more: dict[str, str] = field(default_factory=dict)
    """Further settings of all programs."""

    @property
    def address(self) -> str:
        """Where the gateway answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        """The environment that all programs share, beside the test's own."""
        return {
            "COUNTERPOSE_STATE_DIR": str(self.folder),
            "COUNTERPOSE_DATABASE_URL": self.url,
            "COUNTERPOSE_STORE_URL": str(self.folder / "store"),
            "COUNTERPOSE_PORT": str(self.port),
            "COUNTERPOSE_SERVICES_URL": f"http://127.0.0.1:{self.services_port}",
            "COUNTERPOSE_LEASE_SECONDS": str(self.lease_seconds),
            "PYTHONPATH": os.pathsep.join(sys.path),
        } | self.more

    def start(self, name: Victim) -> None:
        """Start a program as a user does; the services are those of the hunted world."""
        command = ["counterpose_gateway.main", name]
        if name == "services":
            store, hunted = str(self.folder / "store"), ("1", str(self.folder / "shown"))
            command = [self.services, store, str(self.services_port), *(self.world or hunted)]
        with (self.folder / f"{name}.log").open("ab") as said:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", *command], env=os.environ | self.settings, stdout=said, stderr=said
            )

    def kill(self, name: Victim) -> None:
        """Kill a program without a warning, and wait until it is gone."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def answers(self) -> bool:
        """Whether the gateway and all services are ready."""
        try:
            return httpx.get(f"{self.address}/readyz", trust_env=False).is_success
        except httpx.TransportError:
            return False


@contextmanager
def programs(url: str, folder: Path) -> Iterator[Programs]:
    """Run the three programs until the block ends."""
    with started_programs(Programs(url, folder), VICTIMS) as started:
        yield started


def write_secret(folder: Path) -> None:
    """Write the secret that gateway and services share, always the same."""
    folder.mkdir(parents=True, exist_ok=True)
    secret = folder / "secret"
    secret.write_text("a-secret-of-some-length", encoding="utf-8")
    secret.chmod(0o600)


@contextmanager
def started_programs(started: Programs, names: tuple[Victim, ...]) -> Iterator[Programs]:
    """Run some of the programs until the block ends."""
    write_secret(started.folder)
    try:
        for name in names:
            started.start(name)
        look_until(started.answers)
        yield started
    finally:
        for name in tuple(started.running):
            started.kill(name)


def run_with_kills(url: str, folder: Path, root: str, body: dict[str, Any], kills: int) -> str:
    """Run a request to its end while each program is killed so many times in random order; return the run.

    Raises:
        AssertionError: the run ended before the last kill.
    """
    draw, ledger = random.Random(15), Ledger(url)
    victims = [victim for victim in VICTIMS for _ in range(kills)]
    draw.shuffle(victims)
    with programs(url, folder) as running:
        answer = httpx.post(f"{running.address}{root}", json=body, timeout=60.0, trust_env=False)
        assert answer.status_code == 202, answer.text
        run_id = str(answer.json()["id"])

        def ended() -> int:
            counts = ledger.runs.get(run_id).request_counts
            return counts.total - counts.pending

        for victim in victims:
            # Only what gets on is killed again: an item has three attempts.
            before = ended()
            look_until(lambda before=before: ended() > before)  # type: ignore[misc]  # mypy knows no default
            time.sleep(draw.uniform(0.0, 0.05))
            assert ledger.runs.get(run_id).state not in FINAL_RUN_STATES, f"ended before {victim} was killed"
            running.kill(victim)
            running.start(victim)
        look_until(lambda: ledger.runs.get(run_id).state in FINAL_RUN_STATES)
    ledger.close()
    return run_id
