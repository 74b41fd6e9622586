"""Problems specific to PostgreSQL: server defaults, dead connections and locks on two runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import Connection, text

from counterpose_core.errors import BackendUnavailable, InvalidRequest, StorageFull
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.database import engine as database
from counterpose_gateway.ledger.database.engine import Database
from counterpose_gateway.ledger.runs.transitions import end
from counterpose_gateway.ledger.tables import rows
from fakes.ledgers import create_run, lease
from fakes.postgres import PostgresServer

pytestmark = pytest.mark.postgres


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.lent_database() as lent:
        yield lent


@pytest.fixture
def opened(url: str) -> Iterator[Database]:
    opened = Database(url)
    yield opened
    opened.close()


def setting(connection: Connection, name: str) -> str:
    return str(connection.execute(text(f"SHOW {name}")).scalar_one())


def test_weak_server_defaults_are_overridden(postgres_server: PostgresServer, url: str) -> None:
    name = url.rpartition("/")[2]
    postgres_server.run(f"ALTER DATABASE {name} SET synchronous_commit = off")
    postgres_server.run(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    opened = Database(url)
    with opened.writing() as connection:
        assert setting(connection, "transaction_isolation") == "read committed"
        assert setting(connection, "synchronous_commit") == "on"
        assert setting(connection, "lock_timeout") == "5s"
        assert setting(connection, "idle_in_transaction_session_timeout") == "1min"
    with opened.reading() as connection:
        assert setting(connection, "transaction_isolation") == "repeatable read"
        assert setting(connection, "transaction_read_only") == "on"
    with opened.writing() as connection:
        assert setting(connection, "transaction_read_only") == "off"
    opened.close()


def test_a_stronger_server_setting_is_kept(postgres_server: PostgresServer, url: str) -> None:
    postgres_server.run(f"ALTER DATABASE {url.rpartition('/')[2]} SET synchronous_commit = remote_apply")
    opened = Database(url)
    with opened.reading() as connection:
        assert setting(connection, "synchronous_commit") == "remote_apply"
    opened.close()


@pytest.mark.fault("F22")
def test_closed_connections_are_reopened(postgres_server: PostgresServer, url: str) -> None:
    ledger = Ledger(url)
    run_id = create_run(ledger)
    name = url.rpartition("/")[2]
    postgres_server.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    assert ledger.runs.get(run_id).state == "queued"
    ledger.close()


def test_a_database_without_utf8_is_refused(postgres_server: PostgresServer) -> None:
    options = "ENCODING 'SQL_ASCII' LOCALE 'C' LOCALE_PROVIDER libc TEMPLATE template0"
    with pytest.raises(InvalidRequest, match="UTF8, not SQL_ASCII"):
        Ledger(postgres_server.empty_database(options))


@pytest.mark.fault("F10")
def test_a_full_disk_is_reported_in_any_language_of_the_server(opened: Database) -> None:
    raising = "DO $$ BEGIN RAISE disk_full USING MESSAGE = 'kein Platz'; END $$"
    with pytest.raises(StorageFull), opened.writing() as connection:
        connection.execute(text(raising))


def test_a_value_too_long_for_its_column_is_refused(url: str) -> None:
    ledger = Ledger(url)
    with pytest.raises(InvalidRequest, match="too long"):
        ledger.datasets.create("x" * 161, None)
    ledger.close()


def test_a_worker_passes_over_a_run_that_another_transaction_holds(url: str, opened: Database) -> None:
    ledger = Ledger(url)
    taken, free = create_run(ledger, sources=1), create_run(ledger, sources=1)
    with opened.writing() as another:
        rows.locked_run(another, taken)
        assert lease(ledger).run_id == free
    assert lease(ledger).run_id == taken
    ledger.close()


def test_a_worker_waits_for_the_only_run_with_work(
    url: str, opened: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    impatient = Ledger(url)
    run_id = create_run(impatient, sources=1)
    with opened.writing() as another:
        rows.locked_run(another, run_id)
        with pytest.raises(BackendUnavailable, match="lock"):
            impatient.items.lease("worker", seconds=30)
    assert lease(impatient).run_id == run_id
    impatient.close()


def test_a_run_that_ended_while_a_worker_waited_for_it_is_not_leased(url: str, opened: Database) -> None:
    ledger = Ledger(url)
    run_id = create_run(ledger, sources=1)
    with ThreadPoolExecutor(1) as pool:
        with opened.writing() as another:
            run = rows.locked_run(another, run_id)
            waiting = pool.submit(ledger.items.lease, "worker", seconds=30)
            _until_someone_waits(url)
            end(another, run, now=1.0, message="cancelled", state="cancelled")
        assert waiting.result() is None
    ledger.close()


def _until_someone_waits(url: str) -> None:
    deadline = time.monotonic() + 100
    mine = "datname = current_database() AND wait_event_type = 'Lock'"
    query = f"SELECT count(*) FROM pg_stat_activity WHERE {mine}"
    with psycopg.connect(url, autocommit=True) as watching:
        while watching.execute(query).fetchone() == (0,):
            assert time.monotonic() < deadline
            time.sleep(0.01)
