"""The database below the ledger: engine, transactions that lock at their start, migrations."""

from __future__ import annotations

import copy
import json
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alembic import command
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import ConnectionPoolEntry

from counterpose_core.errors import BackendUnavailable, DiskFailed, InvalidRequest, LedgerDamaged, StorageFull
from counterpose_gateway.ledger.database.errors import check_file, damaged, translation
from counterpose_gateway.ledger.database.revisions import known_revisions, migration_config, revision_of
from counterpose_gateway.ledger.tables import totals
from counterpose_gateway.ledger.tables.rows import OPTION
from counterpose_gateway.ledger.tables.schema import metadata

CHECK_SECONDS = 1.0
"""How long SQLite's file is looked through for damage as it is opened."""

BUSY_SECONDS = 5.0
"""How long a writer waits for SQLite's one lock or for a row's in PostgreSQL; transactions take 3 ms."""

IDLE_SECONDS = 60.0
"""PostgreSQL ends a transaction that is idle this long: its machine is gone, its locks must not stay."""

POOL_SIZE = 20
"""Connections kept open; the routes' threads are 40 and most of them wait for a socket."""

MIGRATION_LOCK = 0x6661756C
"""PostgreSQL advisory lock under which one of several starting processes migrates."""


@dataclass
class _Damage:
    """What was found to be damaged, if anything: all views of a database share it.

    ``failure`` is what failed as this process wrote; a sync that succeeds after it proves nothing.
    """

    told: str | None = None
    failure: str | None = None


@dataclass
class _Reader:
    """The connection of SQLite's driver that reads single rows; all views of a database share it."""

    connection: sqlite3.Connection | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Database:
    """One SQLite file (WAL, synchronous=FULL) or one PostgreSQL database, at the newest schema.

    ``check_seconds`` bounds the look through SQLite's file for damage; PostgreSQL checks its pages itself.
    """

    def __init__(self, url: str, *, check_seconds: float = CHECK_SECONDS) -> None:
        self.engine = _engine(url)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        self._folder = Path(self.engine.url.database or "").parent if self.is_sqlite else None
        self._damage = _Damage()
        self._reader = _Reader()
        self.tenant: str | None = None
        self._writing = threading.Lock()
        # Otherwise each statement of a transaction would see a different state on PostgreSQL.
        snapshot = (
            {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        )
        self._readers = self.engine.execution_options(counterpose_read_only=True, **snapshot)
        single = {} if self.is_sqlite else {"isolation_level": "AUTOCOMMIT"}
        self._looks = self.engine.execution_options(counterpose_read_only=True, **single)
        try:
            self._check(check_seconds)
            self.migrate()
        except BaseException:
            # The caller never gets this object, so it must close its connections here.
            self.close()
            raise

    def of(self, tenant: str) -> Database:
        """Return the same database, whose transactions are a tenant's (`tenancy`)."""
        view = copy.copy(self)
        view.tenant = tenant
        mine = {OPTION: tenant}
        view.engine = self.engine.execution_options(**mine)
        view._readers = self._readers.execution_options(**mine)
        view._looks = self._looks.execution_options(**mine)
        return view

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Read one consistent state; this never waits for writers."""
        with self._translated(), self._readers.connect() as connection:
            yield connection

    @contextmanager
    def reading_last_commit(self) -> Iterator[Connection]:
        """Read by single statements, each of the last commit: on PostgreSQL without a transaction's calls."""
        with self._translated(), self._looks.connect() as connection:
            yield connection

    def read_row(self, statement: str, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Read a row of SQLite's file by the driver itself, which never waits; None if that does not work.

        A transaction of SQLAlchemy costs 40 times as much.
        """
        with self._reader.lock:
            try:
                if self._reader.connection is None:
                    self._reader.connection = self._reader_of_file()
                # All rows are fetched: an unfinished statement would keep its old state of the file.
                found: list[tuple[Any, ...]] = self._reader.connection.execute(statement, values).fetchall()
            except (sqlite3.Error, DatabaseError, UnicodeError):
                return None
        return found[0] if found else None

    def _reader_of_file(self) -> sqlite3.Connection:
        pooled = self.engine.raw_connection()
        reader = pooled.driver_connection
        pooled.detach()
        assert isinstance(reader, sqlite3.Connection)  # only a SQLite ledger is read so
        reader.execute("PRAGMA busy_timeout = 0")
        reader.execute("PRAGMA query_only = ON")
        return reader

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Write all or nothing; on SQLite the write lock is taken at the start, not at the first write."""
        self._refuse_failed()
        with (
            self._translated(),
            self._turn() as waited,
            self.engine.connect() as connection,
            connection.execution_options(counterpose_waited=waited).begin(),
        ):
            yield connection

    @contextmanager
    def erasing(self) -> Iterator[Connection]:
        """Write as `writing`; what is deleted is overwritten in SQLite's file, not only marked as free."""
        with self.writing() as connection:
            if self.is_sqlite:
                connection.exec_driver_sql("PRAGMA secure_delete = ON")
            yield connection

    def truncate_log(self) -> None:
        """Move SQLite's log into the file and empty it, as far as no reader needs it."""
        if not self.is_sqlite:
            return
        pooled = self.engine.raw_connection()
        try:
            cursor = pooled.cursor()
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cursor.close()
        finally:
            pooled.close()

    @contextmanager
    def _turn(self) -> Iterator[float]:
        """Wait for this process's other writers; yield the seconds that it took."""
        if not self.is_sqlite:
            yield 0.0
            return
        asked = time.monotonic()
        # SQLite's own wait is a sleep of up to 100 ms, again and again: many writers would mostly sleep.
        if not self._writing.acquire(timeout=BUSY_SECONDS):
            raise BackendUnavailable(
                f"the ledger is locked: a writer of this process has held it for {BUSY_SECONDS:g} s; retry"
            )
        try:
            yield time.monotonic() - asked
        finally:
            self._writing.release()

    def hold_start(self, connection: Connection) -> None:
        """Let this writing transaction be the only one of all processes that start."""
        if not self.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})

    def sample(self, table: str) -> None:
        """Let PostgreSQL look at what a table has now: it plans statements by samples that may be older.

        It does so by itself within minutes. Skipped while another process does it.
        """
        if not self.is_sqlite:
            with self.writing() as connection:
                connection.execute(text(f"ANALYZE (SKIP_LOCKED) {table}"))

    @property
    def is_damaged(self) -> bool:
        """Whether damage was met; every further transaction is refused."""
        return self._damage.told is not None

    def migrate(self) -> None:
        """Bring the schema to the newest revision; safe while other processes start too.

        Raises:
            InvalidRequest: a newer version has written the ledger, or one from before the first release.
        """
        config = migration_config()
        with self.writing() as connection:
            if not self.is_sqlite:
                _refuse_encoding(connection)
            self.hold_start(connection)
            config.attributes["connection"] = connection
            if revision_of(connection, config) is None:
                metadata.create_all(connection, checkfirst=False)
                totals.begin(connection)
                command.stamp(config, "head")
            else:
                command.upgrade(config, "head")

    def roll_back(self, revision: str) -> None:
        """Bring the schema back to an earlier revision, which an earlier version knows.

        Raises:
            InvalidRequest: there is no such revision.
        """
        config = migration_config()
        known = known_revisions(config)
        if revision not in known:
            raise InvalidRequest(f"the ledger has no revision {revision!r}; it has {', '.join(known)}")
        with self.writing() as connection:
            self.hold_start(connection)
            config.attributes["connection"] = connection
            command.downgrade(config, revision)

    def check_ready(self, least_free_bytes: int) -> None:
        """Check that the database can take more.

        Raises:
            LedgerDamaged: it was found to be damaged.
            DiskFailed: its disk failed.
            StorageFull: SQLite's disk has fewer free bytes than given.
        """
        self._refuse_damaged()
        self._refuse_failed()
        if self._folder is None:
            return
        if (free := shutil.disk_usage(self._folder).free) < least_free_bytes:
            raise StorageFull(
                f"the ledger's disk has {free} free bytes, fewer than COUNTERPOSE_LEAST_FREE_BYTES = "
                f"{least_free_bytes}; free some space, then retry"
            )

    def close(self) -> None:
        """Close every connection."""
        with self._reader.lock:
            if self._reader.connection is not None:
                self._reader.connection.close()
                self._reader.connection = None
        self.engine.dispose()

    def _check(self, seconds: float) -> None:
        if self.is_sqlite and seconds:
            with self.reading() as connection:
                check_file(connection, seconds)

    def _refuse_damaged(self) -> None:
        # What is read from a damaged file may be wrong, and what is written may damage more of it.
        if self._damage.told is not None:
            raise LedgerDamaged(self._damage.told)

    @property
    def failure(self) -> str | None:
        """What failed on the disk as this process wrote; every further write is refused."""
        return self._damage.failure

    def _refuse_failed(self) -> None:
        if self.failure is not None:
            raise DiskFailed(self.failure)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        self._refuse_damaged()
        try:
            yield
        except LedgerDamaged as error:
            self._damage.told = error.detail
            raise
        except json.JSONDecodeError as error:
            # Only columns are decoded in a transaction, and they were encoded by the same library.
            found = damaged(f"a document in it is not JSON ({error.msg})")
            self._damage.told = found.detail
            raise found from error
        except DatabaseError as error:
            told = translation(error, self._folder)
            if isinstance(told, LedgerDamaged):
                self._damage.told = told.detail
            if isinstance(told, DiskFailed):
                self._damage.failure = told.detail
            if told is None:
                raise
            raise told from error


def _engine(url: str) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        address = parsed.set(drivername="postgresql+psycopg")
        return _postgresql_engine(address)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:":
        raise InvalidRequest(
            f"the ledger lives in a SQLite file or in PostgreSQL, not in {_masked(parsed)!r}"
        )
    Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(
        parsed,
        connect_args={"timeout": BUSY_SECONDS},
        pool_size=POOL_SIZE,
        # Each connection keeps its prepared statements and pages: in turn, all of them would fill.
        pool_use_lifo=True,
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _postgresql_engine(address: URL) -> Engine:
    engine = create_engine(
        address,
        # The server's defaults may differ; writers hold row locks and read locked rows again.
        isolation_level="READ COMMITTED",
        connect_args={"client_encoding": "utf8"},
        # Tested before use: a server that restarted leaves dead connections in the pool.
        pool_pre_ping=True,
        pool_size=POOL_SIZE,
    )
    event.listen(engine, "connect", _prepare_postgresql)
    return engine


def _masked(url: URL) -> str:
    return url.render_as_string(hide_password=True)


def _prepare_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # The driver's own transactions begin late and upgrade locks midway; ours begin explicitly.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _prepare_postgresql(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    waits = {"lock_timeout": BUSY_SECONDS, "idle_in_transaction_session_timeout": IDLE_SECONDS}
    cursor = connection.cursor()
    for name, seconds in waits.items():
        cursor.execute(f"SET {name} = {round(seconds * 1000)}")
    # Acknowledged writes must survive a power cut, as on SQLite; stronger server settings are kept.
    cursor.execute("SHOW synchronous_commit")
    if cursor.fetchone() == ("off",):
        cursor.execute("SET synchronous_commit = on")
    cursor.close()
    connection.commit()


def _refuse_encoding(connection: Connection) -> None:
    # Other encodings refuse letters that labels have, or count a label's length in bytes.
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        raise InvalidRequest(f"the ledger's database must have the encoding UTF8, not {encoding}")


def _begin_sqlite(connection: Connection) -> None:
    # Two readers that become writers midway would each wait for the other, and one would fail.
    options = connection.get_execution_options()
    if options.get("counterpose_read_only", False):
        connection.exec_driver_sql("BEGIN")
        return
    if (waited := options.get("counterpose_waited", 0.0)) < 0.1:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        return
    # This process's writers were waited for: both waits together take no longer than one.
    connection.exec_driver_sql(_patience(BUSY_SECONDS - waited))
    try:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    finally:
        connection.exec_driver_sql(_patience(BUSY_SECONDS))


def _patience(seconds: float) -> str:
    return f"PRAGMA busy_timeout = {max(round(seconds * 1000), 0)}"
