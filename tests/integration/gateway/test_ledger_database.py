"""The database below the ledger: settings that keep what was acknowledged, and its migrations."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from fakes.ledgers import create_run
from faultline_core.errors import BackendUnavailable, InvalidRequest, StorageFull
from faultline_gateway.ledger import Ledger, database, schema
from faultline_gateway.ledger.database import Database


def url_in(folder: Path) -> str:
    return f"sqlite:///{folder / 'deep' / 'ledger.db'}"


def test_the_migrations_make_exactly_the_tables_that_the_code_uses(tmp_path: Path) -> None:
    opened = Database(url_in(tmp_path))
    with opened.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == "0001"
    opened.close()


def test_opening_again_keeps_everything(tmp_path: Path) -> None:
    first = Ledger(url_in(tmp_path))
    run_id = create_run(first)
    first.close()
    second = Ledger(url_in(tmp_path))
    assert second.run(run_id).request_counts.total == 9
    second.close()


def test_sqlite_syncs_every_commit_and_keeps_references(tmp_path: Path) -> None:
    opened = Database(url_in(tmp_path))
    with opened.reading() as connection:
        pragmas = ("journal_mode", "synchronous", "foreign_keys")
        found = [connection.execute(text(f"PRAGMA {name}")).scalar() for name in pragmas]
    opened.close()
    assert found == ["wal", 2, 1]


def test_a_writer_takes_the_lock_when_it_begins(tmp_path: Path) -> None:
    opened = Database(url_in(tmp_path))
    other = sqlite3.connect(tmp_path / "deep" / "ledger.db", timeout=0)
    with opened.writing(), pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN IMMEDIATE")
    other.close()
    opened.close()


def test_a_locked_database_is_a_passing_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Database(url_in(tmp_path)).close()
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    other = sqlite3.connect(tmp_path / "deep" / "ledger.db")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(BackendUnavailable, match="locked"):
        Database(url_in(tmp_path))
    other.close()


def test_a_reader_does_not_wait_for_a_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    ledger = Ledger(url_in(tmp_path))
    run_id = create_run(ledger)
    other = sqlite3.connect(tmp_path / "deep" / "ledger.db")
    other.execute("BEGIN IMMEDIATE")
    assert ledger.run(run_id).state == "queued"
    other.close()
    ledger.close()


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    opened = Database(url_in(tmp_path))
    with opened.writing() as connection:
        connection.execute(text("CREATE TABLE filler (data BLOB)"))
        connection.execute(text("PRAGMA max_page_count = 60"))
    with pytest.raises(StorageFull), opened.writing() as connection:
        connection.execute(text("INSERT INTO filler VALUES (zeroblob(1000000))"))
    opened.close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://user:hunter2@host/faultline"])
def test_a_ledger_that_would_forget_is_refused_without_telling_passwords(url: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        Database(url)
    assert "hunter2" not in refusal.value.detail
