"""A PostgreSQL server for the tests: in a scratch folder, on a free port, removed afterwards."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import count
from pathlib import Path

import psycopg

from counterpose_gateway.ledger.database.engine import Database
from counterpose_processes.ports import free_port
from fakes.emptied_databases import Contents

START_SECONDS = 60.0


def postgres_binary(name: str) -> str | None:
    """Return the path of a PostgreSQL program, on PATH or in Debian's folder."""
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(debian[-1]) if debian else None)


def server_user() -> str | None:
    """PostgreSQL refuses to run as root, so root starts it as another user."""
    return "postgres" if os.geteuid() == 0 else None


def can_run_postgres() -> bool:
    """Whether the server is installed and there is a user to run it as."""
    users = {entry.pw_name for entry in pwd.getpwall()}
    return postgres_binary("initdb") is not None and server_user() in users | {None}


class PostgresServer:
    """A running server; each database that it returns or lends is new, or as good as new."""

    def __init__(self, command: Sequence[str], port: int, log: Path) -> None:
        self._command = command
        self._address = f"postgresql://counterpose@127.0.0.1:{port}"
        self._log = log
        self._numbers = count()
        self._free: list[str] = []

    def start(self) -> None:
        """Start the server, after a kill, too: it then recovers what was committed."""
        with self._log.open("ab") as log:
            self._server = subprocess.Popen(self._command, stdout=log, stderr=log, user=server_user())
        _wait(self.url(), self._server)

    def stop(self) -> None:
        """Stop the server without waiting for its clients."""
        # Immediate: an orderly stop would wait for ever for a client that a test left open.
        self._server.send_signal(signal.SIGINT)
        self._server.wait(timeout=100)

    def kill(self) -> None:
        """Kill all processes of the server at one moment, as a lost machine would."""
        children = self.processes()
        for process in (self._server.pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._server.wait(timeout=100)
        # A new server refuses memory that a process of the old one still holds.
        while any(Path(f"/proc/{process}").exists() for process in children):
            time.sleep(0.01)

    def processes(self) -> list[int]:
        """The numbers of the server's processes beside the first, which started them."""
        children = Path(f"/proc/{self._server.pid}/task/{self._server.pid}/children")
        return [int(process) for process in children.read_text(encoding="ascii").split()]

    @property
    def process(self) -> int:
        """The number of the server's first process."""
        return self._server.pid

    def url(self, database: str = "postgres") -> str:
        """The URL of an existing database."""
        return f"{self._address}/{database}"

    def run(self, statement: str) -> None:
        """Execute a statement as the server's owner, outside any transaction."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement.encode())

    def empty_database(self, options: str = "") -> str:
        """Make a database without a table and return its URL."""
        name = f"ledger_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} {options}")
        return self.url(name)

    def migrated_database(self) -> str:
        """Make a database with the ledger's tables and return its URL."""
        return self.empty_database(f"TEMPLATE {self._migrated}")

    @contextmanager
    def lent_database(self) -> Iterator[str]:
        """Lend a database with the ledger's empty tables, which the next may get."""
        url = self._free.pop() if self._free else self.migrated_database()
        yield url
        if self._empty.restore(url):
            self._free.append(url)

    @cached_property
    def _empty(self) -> Contents:
        return Contents.of(self.url(self._migrated))

    @cached_property
    def _migrated(self) -> str:
        # Copied for each test: the files of a database are copied faster than its tables are made.
        url = self.empty_database()
        Database(url).close()
        return url.rpartition("/")[2]


@contextmanager
def postgres(*, durable: bool = False) -> Iterator[PostgresServer]:
    """Run a server whose order of letters is a language's, unlike SQLite's.

    ``durable``: whether each commit reaches the disk, as measurements of load need.
    """
    folder, port = Path(tempfile.mkdtemp(prefix="counterpose-pg-")), free_port()
    if (user := server_user()) is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    _run([
        "initdb", "--pgdata", str(data), "--username", "counterpose", "--auth", "trust", "--no-sync",
        "--encoding", "UTF8", "--locale", "C.UTF-8", "--locale-provider", "icu", "--icu-locale", "en",
    ])  # fmt: skip
    command = [
        str(postgres_binary("postgres")), "-D", str(data), "-p", str(port), "-k", str(folder),
        # No test cuts the power, so nothing needs to reach the disk.
        "-c", "listen_addresses=127.0.0.1", "-c", f"fsync={'on' if durable else 'off'}",
    ]  # fmt: skip
    opened = PostgresServer(command, port, folder / "log")
    try:
        opened.start()
        yield opened
    finally:
        opened.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: Sequence[str]) -> None:
    program = str(postgres_binary(command[0]))
    subprocess.run([program, *command[1:]], check=True, capture_output=True, user=server_user(), cwd="/")


def _wait(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return
