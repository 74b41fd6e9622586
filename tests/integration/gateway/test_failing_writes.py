"""A run whose N-th write fails, and one whose disk cannot sync: nothing is lost, whatever N is."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from counterpose_core import blobs
from counterpose_core.backoff import Backoff
from counterpose_core.blobs import BlobStore
from counterpose_core.contract.runs import ItemResult
from counterpose_core.errors import CounterposeError, DiskFailed
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.worker import disks, shared_ledger
from counterpose_gateway.worker import worker as worker_module
from fakes.failing_writes import failing_writes
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import Clock, create_run, new_ledger

BODY = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "seed": 3,
        "max_edits_per_image": 1, "lance_r_edits_per_image": 0}  # fmt: skip
MOST = int(os.environ.get("FAILING_WRITES", "0"))
"""Every N up to this; 0 for a few that meet lease, record, blob and end of a run. `make faults` sets 200."""
FEW = (1, 4, 9, 17, 30)
HOUR = 3600.0


@pytest.fixture(autouse=True)
def restarted_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has met no failure, and loses no time."""
    monkeypatch.setattr(blobs, "_failures", {})
    monkeypatch.setattr(worker_module, "IDLE_SECONDS", 0.01)
    monkeypatch.setattr(shared_ledger, "LEDGER_BACKOFF", Backoff(0.0, 0.0))


@asynccontextmanager
async def opened(folder: Path, clock: Clock) -> AsyncIterator[FakeGateway]:
    """A gateway whose store is on a disk, with a dataset of four images."""
    await asyncio.to_thread(folder.mkdir)
    async with fake_gateway(folder, clock, store=BlobStore(str(folder / "store"))) as gateway:
        await gateway.upload("demo", 1)
        yield gateway


async def create(gateway: FakeGateway) -> str:
    return str((await gateway.http.post("/v1/stress-tests", json=BODY)).json()["id"])


def restarted(gateway: FakeGateway, folder: Path, clock: Clock) -> FakeGateway:
    """What another process finds in the folder, after the leases of the first one."""
    gateway.ledger.close()
    blobs._failures.clear()
    clock.now += HOUR
    store = BlobStore(str(folder / "store"))
    return replace(gateway, ledger=Ledger(f"sqlite:///{folder / 'ledger.db'}", clock=clock), store=store)


def recorded(gateway: FakeGateway, run: str) -> dict[int, tuple[str, tuple[str, ...]]]:
    """State and images of each item, each of which the store can read."""
    found: dict[int, tuple[str, tuple[str, ...]]] = {}
    for item in gateway.ledger.items.all(run):
        result = item.result
        refs = (result.image,) if isinstance(result, ItemResult) else ()
        for ref in refs:
            gateway.store.get(ref)
        found[item.ordinal] = item.state, refs
    return found


async def undisturbed(folder: Path) -> tuple[dict[int, tuple[str, tuple[str, ...]]], int]:
    clock = Clock()
    async with opened(folder, clock) as gateway:
        run = await create(gateway)
        with failing_writes(None, 0) as writes:
            await gateway.worker().work_off()
        return recorded(gateway, run), writes.written


@pytest.mark.fault("F24")
async def test_whichever_write_fails_the_ledger_is_intact_and_the_run_ends_as_undisturbed(
    tmp_path: Path,
) -> None:
    expected, total = await undisturbed(tmp_path / "undisturbed")
    assert total > max(FEW)
    numbers = range(1, MOST + 1) if MOST else FEW
    met = 0
    for number in numbers:
        for code in (errno.ENOSPC, errno.EIO) if MOST else ((errno.ENOSPC, errno.EIO)[number % 2],):
            folder, clock = tmp_path / f"{number}-{code}", Clock()
            async with opened(folder, clock) as gateway:
                run = await create(gateway)
                with failing_writes(number, code) as writes, suppress(CounterposeError):
                    await gateway.worker().work_off()
                met += writes.written >= number
                after = restarted(gateway, folder, clock)
                await after.worker().work_off()
                assert recorded(after, run) == expected, (number, code)
                after.ledger.close()
            with closing(sqlite3.connect(folder / "ledger.db")) as ledger:
                assert ledger.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                assert ledger.execute("PRAGMA foreign_key_check").fetchall() == []
    assert met >= min(len(numbers), total)


@pytest.mark.fault("F23")
async def test_a_worker_whose_disk_cannot_sync_records_nothing_more_and_ends(tmp_path: Path) -> None:
    expected, _ = await undisturbed(tmp_path / "undisturbed")
    folder, clock = tmp_path / "failing", Clock()
    async with opened(folder, clock) as gateway:
        run = await create(gateway)
        before = {item.ordinal: item.state for item in gateway.ledger.items.all(run)}
        with failing_syncs(), pytest.raises(DiskFailed, match="Input/output error"):
            await asyncio.wait_for(gateway.worker().work(asyncio.Event()), 100)
        # Its disk syncs again, which proves nothing of what was written before.
        with pytest.raises(DiskFailed, match="start anew"):
            gateway.store.put(b"more")
        states = {item.ordinal: item.state for item in gateway.ledger.items.all(run)}
        assert set(states.values()) <= {"pending", "leased"}
        assert states.keys() == before.keys()
        after = restarted(gateway, folder, clock)
        await after.worker().work_off()
        assert recorded(after, run) == expected
        after.ledger.close()


@contextmanager
def failing_syncs() -> Iterator[None]:
    def fail(handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        yield


@pytest.mark.fault("F23")
@pytest.mark.parametrize("name", ["SQLITE_IOERR_FSYNC", "SQLITE_IOERR_DIR_FSYNC"])
def test_a_ledger_whose_sync_failed_takes_no_further_write(name: str, tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    origin = sqlite3.OperationalError("disk I/O error")
    origin.sqlite_errorname = name
    with pytest.raises(DiskFailed, match="disk I/O error"), ledger._session.database.writing():
        raise OperationalError("COMMIT", None, origin)
    for refused in (lambda: create_run(ledger), lambda: ledger.check_ready(0)):
        with pytest.raises(DiskFailed, match="start anew"):
            refused()
    assert ledger.measurements.active_runs() == 0
    ledger.close()


@pytest.mark.fault("F23")
async def test_a_server_stops_when_a_disk_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "LOOK_SECONDS", 0.001)
    ledger, store, server = new_ledger(tmp_path), BlobStore(str(tmp_path / "store")), StoppedServer()
    stopping = asyncio.create_task(disks.stop_with_disks(ledger, store, server))
    await asyncio.sleep(0.01)
    assert vars(server) == {}
    with failing_syncs(), pytest.raises(DiskFailed):
        store.put(b"bytes")
    await asyncio.wait_for(stopping, 100)
    assert vars(server) == {"should_exit": True}
    with pytest.raises(DiskFailed):
        disks.require_disks(ledger, store)
    ledger.close()


class StoppedServer:
    """What `stop_with_disks` sets of a server."""

    should_exit = False
