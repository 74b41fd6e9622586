"""Problems specific to PostgreSQL: server defaults, dead connections and locks on two runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, RowMapping, text

from fakes.ledgers import create_run, lease
from fakes.postgres import PostgresServer
from faultline_core.errors import InvalidRequest, StorageFull
from faultline_gateway.ledger import Ledger, database, rows
from faultline_gateway.ledger.database import Database

pytestmark = pytest.mark.postgres


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    return postgres_server.migrated_database()


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
        assert setting(connection, "lock_timeout") == "10s"
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
    assert ledger.run(run_id).state == "queued"
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
        ledger.create_dataset("x" * 97, None)
    ledger.close()


def test_a_lease_locks_one_run_at_a_time(url: str, opened: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers that each held one run and waited for the other's would deadlock."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    ledger, rival = Ledger(url), Ledger(url)
    taken, free = create_run(ledger, sources=1), create_run(ledger, sources=1)
    candidate = ledger._candidate
    looks: list[RowMapping | None] = []

    def look(connection: Connection, run_id: str | None) -> RowMapping | None:
        if len(looks) == 2:
            with opened.writing() as another:
                rows.locked_run(another, taken)
        looks.append(candidate(connection, run_id))
        if len(looks) == 2:
            assert lease(rival).run_id == taken
        return looks[-1]

    monkeypatch.setattr(ledger, "_candidate", look)
    assert lease(ledger).run_id == free
    assert len(looks) == 3
    ledger.close()
    rival.close()
