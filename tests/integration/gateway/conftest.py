"""A fresh ledger for each test that needs one, on either database, with a clock that the test controls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.ledgers import Clock, migrated_file
from fakes.postgres import PostgresServer, can_run_postgres, postgres
from faultline_gateway.ledger import Ledger

DATABASES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for all tests; each test has its own database."""
    if not can_run_postgres():
        pytest.skip("no PostgreSQL server is installed; as root `make system` installs Debian's")
    with postgres() as server:
        yield server


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still until the test moves it."""
    return Clock()


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest) -> str:
    """Which database the test runs on."""
    kind: str = request.param
    return kind


@pytest.fixture
def empty_url(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without a table."""
    if database == "sqlite":
        return f"sqlite:///{tmp_path / 'deep' / 'ledger.db'}"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.empty_database()


@pytest.fixture
def url(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database at the newest schema without a row."""
    if database == "sqlite":
        return migrated_file(tmp_path)
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.migrated_database()


@pytest.fixture
def ledger(url: str, clock: Clock) -> Iterator[Ledger]:
    """An empty ledger."""
    opened = Ledger(url, clock=clock)
    yield opened
    opened.close()
