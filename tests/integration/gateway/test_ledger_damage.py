"""A ledger that is damaged, or whose disk is full: named at the start, in every answer and when it works."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from counterpose_core.blobs import BlobStore
from counterpose_core.errors import BackendUnavailable, LedgerDamaged, StorageFull
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.database import errors
from counterpose_gateway.ledger.database.engine import Database
from counterpose_gateway.ledger.database.errors import translation
from counterpose_gateway.main import main
from fakes.damaged_ledgers import cut, damage_start, damage_table
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import create_run, migrated_file
from fakes.postgres import PostgresServer

BODY = {"dataset": "demo", "classifiers": ["steady"], "seed": 3}
FORTY_MEGABYTES = (
    "WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 40000) "
    "INSERT INTO filler SELECT zeroblob(1000) FROM counted"
)
SPACE = (100, 100, 0)
"""What `shutil.disk_usage` says of a full disk."""


class DiskUsage(NamedTuple):
    """The answer of `shutil.disk_usage`."""

    total: int
    used: int
    free: int


def damage_items(file: Path) -> None:
    damage_table(file, "items")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder whose ledger has a run, and the process's own umask afterwards."""
    monkeypatch.setenv("COUNTERPOSE_STATE_DIR", str(tmp_path))
    secret = tmp_path / "secret"
    secret.write_text("a-secret-of-some-length", encoding="utf-8")
    secret.chmod(0o600)
    ledger = Ledger(migrated_file(tmp_path))
    create_run(ledger, sources=20)
    ledger.close()
    mask = os.umask(0o022)
    yield tmp_path
    os.umask(mask)


@pytest.mark.fault("F33")
@pytest.mark.parametrize("damage", [damage_items, damage_start, cut])
@pytest.mark.parametrize("verb", ["serve", "work"])
def test_a_damaged_ledger_ends_the_start_in_one_line(
    verb: str, damage: Callable[[Path], None], state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(state / "ledger.db")
    assert main([verb]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("counterpose-gateway: the ledger is damaged: ")
    assert "restore its database from the last backup" in line


@pytest.mark.fault("F33")
def test_a_backup_made_as_the_page_says_can_be_restored(state: Path) -> None:
    file, backup = state / "ledger.db", state / "backup.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("VACUUM INTO ?", (str(backup),))
    damage_items(file)
    with pytest.raises(LedgerDamaged):
        Ledger(f"sqlite:///{file}")
    shutil.copy(backup, file)
    restored = Ledger(f"sqlite:///{file}")
    assert restored.measurements.active_runs() == 1
    restored.close()


@pytest.mark.parametrize("seconds", [1e-9, 0.001])
def test_the_check_ends_in_its_time_and_says_that_it_saw_only_a_part(
    seconds: float, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(errors._logger, "warning", lambda message, *values: told.append(message % values))
    with closing(sqlite3.connect(state / "ledger.db")) as database, database:
        database.execute("PRAGMA synchronous = OFF")
        database.execute("CREATE TABLE filler (data BLOB)")
        database.execute(FORTY_MEGABYTES)
    begin = time.process_time()
    Ledger(f"sqlite:///{state / 'ledger.db'}", check_seconds=seconds).close()
    assert time.process_time() - begin < 5
    (warning,) = told
    assert "only a part of the ledger was checked" in warning
    assert "COUNTERPOSE_LEDGER_CHECK_SECONDS" in warning


@pytest.mark.fault("F33")
def test_nothing_is_read_or_written_after_damage_was_met(state: Path) -> None:
    file = state / "ledger.db"
    damage_items(file)
    ledger = Ledger(f"sqlite:///{file}", check_seconds=0)
    assert ledger.measurements.active_runs() == 1
    with pytest.raises(LedgerDamaged, match="malformed"):
        ledger.items.lease("w", seconds=60)
    for call in (ledger.measurements.active_runs, lambda: ledger.datasets.create("new", None)):
        with pytest.raises(LedgerDamaged, match="malformed"):
            call()
    ledger.close()


@pytest.mark.fault("F33")
def test_a_document_that_is_not_json_is_damage(state: Path) -> None:
    with closing(sqlite3.connect(state / "ledger.db")) as database, database:
        database.execute("UPDATE runs SET config = '{'")
    ledger = Ledger(f"sqlite:///{state / 'ledger.db'}")
    with pytest.raises(LedgerDamaged, match="not JSON"):
        ledger.items.lease("w", seconds=60)
    ledger.close()


@pytest.mark.fault("F33")
@pytest.mark.postgres
@pytest.mark.parametrize("code", ["XX001", "XX002"])
def test_damage_is_known_by_its_code_on_postgresql(code: str, postgres_server: PostgresServer) -> None:
    opened = Database(postgres_server.migrated_database())
    raising = f"DO $$ BEGIN RAISE EXCEPTION 'kaputte Seite' USING ERRCODE = '{code}'; END $$"
    with pytest.raises(LedgerDamaged, match="kaputte Seite"), opened.writing() as connection:
        connection.execute(text(raising))
    with pytest.raises(LedgerDamaged), opened.reading():
        pass
    opened.close()


@pytest.fixture
async def damaged(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    """A gateway with a dataset and a run, whose ledger was damaged while it ran."""
    async with fake_gateway(tmp_path) as gateway:
        await gateway.upload("demo", 1)
        assert (await gateway.http.post("/v1/stress-tests", json=BODY)).status_code == 202
        gateway.ledger.close()
        for table in ("items", "datasets"):
            damage_table(tmp_path / "ledger.db", table)
        yield gateway


@pytest.mark.fault("F33")
async def test_every_answer_names_a_damaged_ledger(damaged: FakeGateway) -> None:
    asked: list[tuple[str, str, Any]] = [
        ("GET", "/v1/datasets", None), ("GET", "/v1/runs", None), ("POST", "/v1/stress-tests", BODY),
        ("GET", "/readyz", None), ("GET", "/metrics", None),
    ]  # fmt: skip
    for method, path, body in asked:
        answer = await damaged.http.request(method, path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (500, "ledger-damaged"), path
        assert "restore its database from the last backup" in answer.json()["detail"]
        assert not answer.json()["retryable"]
    assert (await damaged.http.get("/healthz")).status_code == 200


@pytest.mark.fault("F33")
async def test_a_worker_ends_when_the_ledger_is_damaged(damaged: FakeGateway) -> None:
    with pytest.raises(LedgerDamaged):
        await asyncio.wait_for(damaged.worker().work(asyncio.Event()), 100)


@pytest.mark.fault("F34")
@pytest.mark.parametrize("name", ["SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_WRITE", "SQLITE_CANTOPEN"])
def test_a_disk_error_is_called_full_where_there_is_no_room(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = sqlite3.OperationalError("disk I/O error")
    origin.sqlite_errorname = name
    error = OperationalError("BEGIN", None, origin)
    assert isinstance(translation(error, tmp_path), BackendUnavailable)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: DiskUsage(*SPACE))
    assert isinstance(translation(error, tmp_path), StorageFull)


@pytest.mark.fault("F34")
async def test_readiness_names_a_full_disk(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, least_free_bytes=2**62) as gateway:
        answer = await gateway.http.get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (507, "storage-full")
    assert f"COUNTERPOSE_LEAST_FREE_BYTES = {2**62}" in answer.json()["detail"]


@pytest.mark.fault("F34")
def test_a_store_names_its_full_disk(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path))
    store.require_room(1)
    with pytest.raises(StorageFull, match="the store's disk"):
        store.require_room(2**62)
