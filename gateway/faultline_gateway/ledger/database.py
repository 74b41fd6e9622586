"""The database below the ledger: engine, transactions that lock at their start, migrations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from faultline_core.errors import BackendUnavailable, FaultlineError, InvalidRequest, StorageFull

BUSY_SECONDS = 10.0
"""How long a writer waits for SQLite's one write lock; transactions take about 3 ms."""

POOL_SIZE = 20
"""Connections kept open; the routes' threads are 40 and most of them wait for a socket."""

MIGRATION_LOCK = 0x6661756C
"""PostgreSQL advisory lock under which one of several starting processes migrates."""


class Database:
    """One SQLite file (WAL, synchronous=FULL) or one PostgreSQL database, at the newest schema."""

    def __init__(self, url: str) -> None:
        self.engine = _engine(url)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        self.migrate()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Read one consistent state; on SQLite this never waits for writers."""
        with _translated(), self.engine.connect() as connection:
            yield connection.execution_options(faultline_read_only=True)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Write all or nothing; on SQLite the write lock is taken at the start, not at the first write."""
        with _translated(), self.engine.begin() as connection:
            yield connection

    def migrate(self) -> None:
        """Bring the schema to the newest revision; safe while other processes start too."""
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        config.set_main_option("path_separator", "os")
        with self.writing() as connection:
            if not self.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()


def _engine(url: str) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        address = parsed.set(drivername="postgresql+psycopg")
        # Asked before use: a server that restarted leaves dead connections in the pool.
        return create_engine(address, pool_pre_ping=True, pool_size=POOL_SIZE)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:":
        raise InvalidRequest(
            f"the ledger lives in a SQLite file or in PostgreSQL, not in {_masked(parsed)!r}"
        )
    Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(parsed, connect_args={"timeout": BUSY_SECONDS}, pool_size=POOL_SIZE)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _masked(url: URL) -> str:
    return url.render_as_string(hide_password=True)


def _prepare_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # The driver's own transactions begin late and upgrade locks midway; ours begin where we say.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # Two that read first and turn writers midway would each wait for the other, and one would fail.
    read_only = connection.get_execution_options().get("faultline_read_only", False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        raise _translation(error) from error


def _translation(error: OperationalError) -> FaultlineError:
    reason = str(error.orig)
    # Neither driver gives this a type of its own.
    if "disk is full" in reason or "No space left" in reason:
        return StorageFull("the ledger's disk is full")
    return BackendUnavailable(
        f"the ledger does not answer: {reason.splitlines()[0] if reason else 'no reason'}"
    )
