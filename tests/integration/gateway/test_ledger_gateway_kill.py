"""The gateway is killed at random while clients submit: every acknowledged run exists once per key."""

from __future__ import annotations

import random
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from counterpose import Client
from counterpose._retries import RetryPolicy
from counterpose_core.blobs import BlobStore
from counterpose_core.errors import BackendError
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.sources import NewSource
from counterpose_processes.ports import free_port
from fakes.gateway_server import serve
from fakes.ledger_audit import violated
from fakes.processes import child_processes, look_until
from fakes.shared_world import SharedStore
from fakes.world import FakeWorld

KILLS = {"sqlite": 20, "postgresql": 6}
SOURCES = 8
ITEMS_A_SOURCE = 8  # an edit of each of five types, reconstruction, placebo, LANCE-R


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=60) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def fill(ledger: Ledger, store: BlobStore) -> None:
    world = FakeWorld(store=SharedStore(store))
    ledger.datasets.create("demo", None)
    sources = [
        NewSource(image=one.image, label=one.label, filename=one.filename, caption=None, width=8, height=8)
        for one in world.sources(2)
    ]
    ledger.datasets.add("demo", sources)


@pytest.mark.fault("F3")
def test_each_key_has_one_run_after_the_gateway_is_killed(database: str, url: str, tmp_path: Path) -> None:
    draw = random.Random(7)
    port, kills = free_port(), KILLS[database]
    ledger, address = Ledger(url), f"http://127.0.0.1:{port}"
    fill(ledger, BlobStore(str(tmp_path / "store")))
    promised: dict[str, str] = {}
    with child_processes() as start, Client(address, retries=RetryPolicy(attempts=1)) as client:
        for attempt in range(kills):
            gateway = start(serve, url, tmp_path, port)
            look_until(partial(answers, address))
            for number in range(draw.randrange(1, 5)):
                key = f"{attempt // 2}-{number}"
                if number == draw.randrange(1, 5):
                    gateway.kill()
                try:
                    run = client.stress_tests.create(
                        dataset="demo", classifiers=["steady"], seed=number, idempotency_key=key
                    )
                except BackendError:
                    break
                assert promised.setdefault(key, run.id) == run.id
            gateway.kill()
            gateway.join()
    assert len(promised) >= kills // 2
    assert len(set(promised.values())) == len(promised)
    for run_id in promised.values():
        assert ledger.runs.get(run_id).request_counts.pending == SOURCES * ITEMS_A_SOURCE
        assert violated(ledger, run_id) == []
    ledger.close()
