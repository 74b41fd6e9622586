"""The ledger's database: durable settings and migrations."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import func, select, text

from counterpose_core.contract.runs import ItemResult
from counterpose_core.errors import BackendUnavailable, InvalidRequest, NotFound, StorageFull
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.database import engine
from counterpose_gateway.ledger.database.engine import Database
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.outcomes import Done, Failed
from fakes.ledger_audit import violated_totals
from fakes.ledgers import create_run, lease

LARGEST_INTEGER = 2**31 - 1
BASELINE = Path(__file__).parent / "baseline"


def sqlite_url(folder: Path) -> str:
    return f"sqlite:///{folder / 'deep' / 'ledger.db'}"


@pytest.fixture
def other(url: str) -> Iterator[Database]:
    """The same database, opened as by another process."""
    opened = Database(url)
    yield opened
    opened.close()


@pytest.fixture
def impatient(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """A ledger that waits for a lock for 50 ms."""
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.05)
    opened = Ledger(url)
    yield opened
    opened.close()


def of_first_release(database: str, empty_url: str) -> None:
    """Make the tables of the baseline, as the first release does."""
    made = engine._engine(empty_url)
    statements = (BASELINE / f"{database}.sql").read_text(encoding="utf-8").split(";\n")
    with made.begin() as connection:
        for statement in (*statements, "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"):
            if statement.strip():
                connection.exec_driver_sql(statement)
        connection.execute(text("INSERT INTO alembic_version VALUES ('0101')"))
        rows = "INSERT INTO tallies (shard, active_runs, cost) VALUES (:shard, 0, '{}')"
        connection.execute(text(rows), [{"shard": shard} for shard in range(16)])
    made.dispose()


@pytest.mark.parametrize("is_new", [True, False])
def test_new_and_upgraded_ledgers_have_exactly_the_tables_the_code_uses(
    empty_url: str, database: str, is_new: bool
) -> None:
    if not is_new:
        of_first_release(database, empty_url)
    opened = Database(empty_url)
    with opened.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == "0107"
    opened.close()
    ledger = Ledger(empty_url)
    assert ledger.runs.get(create_run(ledger)).request_counts.total == 9
    assert violated_totals(ledger) == []
    ledger.close()


def test_reopening_keeps_everything(empty_url: str) -> None:
    first = Ledger(empty_url)
    run_id = create_run(first)
    first.close()
    second = Ledger(empty_url)
    assert second.runs.get(run_id).request_counts.total == 9
    second.close()


@pytest.mark.fault("F22")
def test_a_locked_row_is_a_temporary_error(impatient: Ledger, other: Database) -> None:
    run_id = create_run(impatient)
    with other.writing() as connection:
        rows.locked_run(connection, run_id)
        with pytest.raises(BackendUnavailable, match="lock"):
            impatient.runs.cancel(run_id)
    assert impatient.runs.cancel(run_id).state == "cancelled"


def test_a_reader_does_not_block_on_a_writer(impatient: Ledger, other: Database) -> None:
    run_id = create_run(impatient)
    with other.writing() as connection:
        rows.locked_run(connection, run_id)
        assert impatient.runs.get(run_id).state == "queued"


def test_a_reader_sees_a_consistent_snapshot(ledger: Ledger, other: Database) -> None:
    create_run(ledger)
    counted = select(func.count()).select_from(schema.items)
    with other.reading() as connection:
        before = connection.execute(counted).scalar_one()
        create_run(ledger)
        assert connection.execute(counted).scalar_one() == before == 9
    with other.reading() as connection:
        assert connection.execute(counted).scalar_one() == 18


def test_unstorable_characters_of_a_text_are_replaced(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=1, per_source=2)
    first, second = lease(ledger).items
    ledger.items.finish(first.id, first.fence, Failed(code="internal-error", detail="a\0b \ud800"))
    ledger.items.finish(second.id, second.fence, Done(result=ItemResult(image="a" * 64, caption="a\0b")))
    failed, finished = ledger.items.all(run_id)
    assert failed.detail == "a\ufffdb ?"
    assert finished.result is not None
    assert finished.result.caption == "a\0b"
    with pytest.raises(NotFound):
        ledger.runs.get(f"{run_id}\0")


def test_event_numbers_exceed_31_bits(database: str, ledger: Ledger, other: Database) -> None:
    first = create_run(ledger)
    jump = {
        "sqlite": "UPDATE sqlite_sequence SET seq = :last WHERE name = 'events'",
        "postgresql": "SELECT setval('events_id_seq', :last)",
    }
    with other.writing() as connection:
        connection.execute(text(jump[database]), {"last": LARGEST_INTEGER})
    run_id = create_run(ledger)
    assert ledger.events.last(run_id).id == LARGEST_INTEGER + 1
    assert ledger.events.page(run_id, after=LARGEST_INTEGER) == [ledger.events.last(run_id)]
    assert ledger.events.page(first, after=LARGEST_INTEGER) == []


def test_datasets_are_listed_in_code_point_order(ledger: Ledger) -> None:
    for name in ("apple", "Zebra", "_x", "Apple", "b-1", "b1"):
        ledger.datasets.create(name, None)
    assert [one.name for one in ledger.datasets.all()] == ["Apple", "Zebra", "_x", "apple", "b-1", "b1"]


def test_sqlite_syncs_every_commit_and_enforces_references(tmp_path: Path) -> None:
    opened = Database(sqlite_url(tmp_path))
    with opened.reading() as connection:
        pragmas = ("journal_mode", "synchronous", "foreign_keys")
        found = [connection.execute(text(f"PRAGMA {name}")).scalar() for name in pragmas]
    opened.close()
    assert found == ["wal", 2, 1]


def test_a_writer_takes_sqlite_s_lock_at_the_start(tmp_path: Path) -> None:
    opened = Database(sqlite_url(tmp_path))
    other = sqlite3.connect(tmp_path / "deep" / "ledger.db", timeout=0)
    with opened.writing(), pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN IMMEDIATE")
    other.close()
    opened.close()


@pytest.mark.fault("F10")
def test_a_full_disk_is_reported_by_name_on_sqlite(tmp_path: Path) -> None:
    opened = Database(sqlite_url(tmp_path))
    with opened.writing() as connection:
        connection.execute(text("CREATE TABLE filler (data BLOB)"))
        connection.execute(text("PRAGMA max_page_count = 60"))
    with pytest.raises(StorageFull), opened.writing() as connection:
        connection.execute(text("INSERT INTO filler VALUES (zeroblob(1000000))"))
    opened.close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://user:hunter2@host/counterpose"])
def test_a_volatile_database_is_refused_without_revealing_the_password(url: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        Database(url)
    assert "hunter2" not in refusal.value.detail


@pytest.mark.fault("F22")
def test_writers_of_one_process_wait_for_each_other_without_sleeping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's own wait sleeps for up to 100 ms at a time; a process's own writers are waked instead."""
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.05)
    opened = Database(sqlite_url(tmp_path))
    with opened.writing(), ThreadPoolExecutor(1) as pool:
        refused = pool.submit(lambda: opened.writing().__enter__()).exception()
    assert isinstance(refused, BackendUnavailable)
    assert "a writer of this process has held it for 0.05 s" in refused.detail
    with opened.writing():
        pass
    opened.close()


@pytest.mark.fault("F22")
@pytest.mark.parametrize("writers", [1, 3, 8])
def test_writers_that_queue_behind_another_process_wait_no_longer_than_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writers: int
) -> None:
    assert engine.BUSY_SECONDS <= 5
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.6)
    opened, another = Database(sqlite_url(tmp_path)), sqlite3.connect(tmp_path / "deep" / "ledger.db")
    another.execute("BEGIN IMMEDIATE")

    def refused(_: int) -> float:
        asked = time.monotonic()
        with pytest.raises(BackendUnavailable, match="lock"), opened.writing():
            pass
        return time.monotonic() - asked

    with ThreadPoolExecutor(writers) as pool:
        taken = list(pool.map(refused, range(writers)))
    assert max(taken) < 1.0, taken
    another.rollback()
    # Who waits in vain is no less patient the next time.
    with opened.reading() as connection:
        assert connection.execute(text("PRAGMA busy_timeout")).scalar_one() == 600
    another.close()
    opened.close()


def test_one_caller_after_another_uses_one_connection_of_sqlite(tmp_path: Path) -> None:
    opened = Database(sqlite_url(tmp_path))
    with opened.reading(), opened.reading(), opened.reading():
        pass
    used = set()
    for _ in range(6):
        with opened.reading() as connection:
            used.add(id(connection.connection.driver_connection))
    assert len(used) == 1
    opened.close()
