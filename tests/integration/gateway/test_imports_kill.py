"""A worker that is killed or stopped in the middle of a shard: nothing is lost, no image is there twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import select

from counterpose_core.contract.datasets import ImportCreate
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.tables import schema
from fakes.ledgers import new_ledger
from fakes.processes import look_until
from fakes.shards import write_shards

SHARDS, EACH = 2, 1_100
KILLS = 2


def start_worker(folder: Path, shards: Path) -> subprocess.Popen[bytes]:
    settings = {
        "COUNTERPOSE_STATE_DIR": str(folder), "COUNTERPOSE_LEASE_SECONDS": "1",
        "COUNTERPOSE_SECRET": "s" * 32,
        "COUNTERPOSE_IMPORT_FROM": f"file://{shards}", "COUNTERPOSE_CONCURRENCY": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }  # fmt: skip
    with (folder / "work.log").open("ab") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "counterpose_gateway.main", "work"],
            env=os.environ | settings, stdout=said, stderr=said,
        )  # fmt: skip


@pytest.mark.fault("F7")
def test_a_killed_worker_loses_no_image_and_repeats_none(tmp_path: Path) -> None:
    pattern = write_shards(f"file://{tmp_path}/shards", SHARDS, EACH, ["boat", "sled"])
    ledger = new_ledger(tmp_path)
    ledger.datasets.create("photos", None)
    ledger.imports.create("photos", ImportCreate(url=pattern), "webdataset")
    seen = 0
    for _ in range(KILLS):
        worker = start_worker(tmp_path, tmp_path / "shards")
        try:
            look_until(lambda before=seen: imported(ledger) > before)  # type: ignore[misc]
        finally:
            worker.kill()
            worker.wait()
        seen = imported(ledger)
        assert 0 < seen < SHARDS * EACH
        assert len(ledger.datasets.sources("photos")) == seen
    worker = start_worker(tmp_path, tmp_path / "shards")
    try:
        look_until(lambda: ledger.imports.has_ended("photos"))
    finally:
        worker.terminate()
        worker.wait()
    sources = ledger.datasets.sources("photos")
    assert len(sources) == len({source.filename for source in sources}) == SHARDS * EACH
    found = ledger.datasets.get("photos").imported
    assert found is not None
    assert (found.state, found.images, found.n_rejected) == ("done", SHARDS * EACH, 0)
    ledger.close()


def test_a_worker_that_is_asked_to_stop_ends_though_its_storage_does_not_answer(tmp_path: Path) -> None:
    """A pipe that nobody writes to is read for ever; the lease is given back, and costs no attempt."""
    shards = tmp_path / "shards"
    shards.mkdir()
    os.mkfifo(shards / "one.tar")
    ledger = new_ledger(tmp_path)
    ledger.datasets.create("photos", None)
    ledger.imports.create("photos", ImportCreate(url=f"file://{shards}/one.tar"), "webdataset")
    worker = start_worker(tmp_path, shards)
    try:
        look_until(lambda: shard_states(ledger) == [("leased", 1)])
        worker.terminate()
        assert worker.wait(timeout=100) == 0
    finally:
        worker.kill()
        worker.wait()
    assert shard_states(ledger) == [("pending", 0)]
    ledger.close()


def shard_states(ledger: Ledger) -> list[tuple[str, int]]:
    """The state and the attempts of each shard."""
    columns = schema.import_shards.c
    with ledger._session.database.reading() as connection:
        return [
            (state, tries) for state, tries in connection.execute(select(columns.state, columns.attempts))
        ]


def imported(ledger: Ledger) -> int:
    found = ledger.datasets.get("photos").imported
    return 0 if found is None else found.images
