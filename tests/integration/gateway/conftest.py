"""Fresh ledgers on either database, with a clock that the test controls, and a gateway for a module."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from counterpose_gateway.ledger import Ledger
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import Clock, migrated_file
from fakes.postgres import PostgresServer, can_run_postgres, postgres

DATABASES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for all tests; each test has its own database."""
    if not can_run_postgres():
        pytest.skip("no PostgreSQL server is installed; as root `make system` installs Debian's")
    with postgres() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    """One gateway for a module whose tests each use a dataset of their own."""
    async with fake_gateway(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


@pytest.fixture
def name() -> str:
    """A dataset that no other test uses."""
    return f"demo-{uuid.uuid4().hex}"


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
def url(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database at the newest schema without a row."""
    if database == "sqlite":
        yield migrated_file(tmp_path)
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.lent_database() as lent:
        yield lent


@pytest.fixture
def ledger(url: str, clock: Clock) -> Iterator[Ledger]:
    """An empty ledger."""
    opened = Ledger(url, clock=clock)
    yield opened
    opened.close()
