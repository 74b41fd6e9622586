"""A gateway in a process of its own: the server of `serve` over services that answer at once."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterpose_core.blobs import BlobStore
from counterpose_gateway.app import create_app
from counterpose_gateway.http.server import prepare_event_loop, server_of
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.settings import GatewaySettings
from counterpose_processes.ports import free_port
from fakes.gateway import FakeHealth
from fakes.ledgers import migrated_file
from fakes.ports import fake_services
from fakes.shared_world import SharedStore
from fakes.world import FakeWorld, fake_suite

READY_SECONDS = 60.0


@dataclass(frozen=True)
class GatewayProcess:
    """A gateway that runs: where it listens, its ledger's URL, and its process."""

    port: int
    url: str
    process: int

    def resident_mb(self) -> float:
        """Return the resident memory in MB of 10^6 bytes; Linux alone says it in this place."""
        status = Path(f"/proc/{self.process}/status").read_text(encoding="utf-8")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024 / 1e6


@contextmanager
def gateway_process(folder: Path, url: str | None = None, **settings: Any) -> Iterator[GatewayProcess]:
    """Serve the ledger at ``url``, by default an empty one in ``folder``, until the block ends."""
    url, port = url or migrated_file(folder), free_port()
    spawned = multiprocessing.get_context("spawn")
    process = spawned.Process(target=_serve, args=(folder, url, port, settings), daemon=True)
    process.start()
    try:
        _wait_for(port)
        assert process.pid is not None  # it has started
        yield GatewayProcess(port, url, process.pid)
    finally:
        process.terminate()
        process.join()


def _serve(folder: Path, url: str, port: int, given: dict[str, Any]) -> None:
    asyncio.run(_serving(folder, url, GatewaySettings(port=port, **given)))


async def _serving(folder: Path, url: str, settings: GatewaySettings) -> None:
    prepare_event_loop()
    store = BlobStore(str(folder / "store"))
    services = fake_services(FakeWorld(store=SharedStore(store)))
    app = create_app(
        settings, ledger=Ledger(url), store=store, services=services, suite=fake_suite(), health=FakeHealth()
    )  # fmt: skip
    await server_of(app, settings).serve()


def _wait_for(port: int) -> None:
    until = time.monotonic() + READY_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
