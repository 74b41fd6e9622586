"""A gateway over fake services in a process of its own, with a small dataset."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from counterpose_core.blobs import BlobStore
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.sources import NewSource
from counterpose_processes.ports import free_port
from fakes.gateway_server import serve
from fakes.processes import child_processes
from fakes.shared_world import SharedStore
from fakes.world import FakeWorld

START_SECONDS = 60.0


def fill(ledger: Ledger, folder: Path, per_class: int = 2, name: str = "demo") -> None:
    """Make a dataset of fake images whose answers the fake services know."""
    world = FakeWorld(store=SharedStore(BlobStore(str(folder / "store"))))
    ledger.datasets.create(name, None)
    sources = [
        NewSource(image=one.image, label=one.label, filename=one.filename, caption=None, width=8, height=8)
        for one in world.sources(per_class)
    ]
    ledger.datasets.add(name, sources)


@contextmanager
def served(url: str, folder: Path) -> Iterator[int]:
    """Serve the ledger at ``url`` and return the port on loopback."""
    ledger = Ledger(url)
    fill(ledger, folder)
    ledger.close()
    port = free_port()
    with child_processes() as start:
        start(serve, url, folder, port)
        deadline = time.monotonic() + START_SECONDS
        while not _answers(port):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the gateway does not answer after {START_SECONDS:g} s")
            time.sleep(0.05)
        yield port


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
