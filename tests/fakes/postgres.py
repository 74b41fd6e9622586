"""A PostgreSQL server of our own for a test: in a scratch folder, on a free port, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

START_SECONDS = 60.0


def free_port() -> int:
    """A port on loopback that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def postgres_binary(name: str) -> str | None:
    """Where a program of PostgreSQL is, on the path or where Debian puts it."""
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(debian[-1]) if debian else None)


def server_user() -> str | None:
    """PostgreSQL refuses to run as root, so root lends it another user's name."""
    return "postgres" if os.geteuid() == 0 else None


def can_run_postgres() -> bool:
    """Whether there is a server and a user to run it as."""
    users = {entry.pw_name for entry in pwd.getpwall()}
    return postgres_binary("initdb") is not None and server_user() in users | {None}


@contextmanager
def postgres() -> Iterator[str]:
    """Run a server and give the URL of its database."""
    folder, port = Path(tempfile.mkdtemp(prefix="faultline-pg-")), free_port()
    if (user := server_user()) is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    _run(["initdb", "--pgdata", str(data), "--username", "faultline", "--auth", "trust", "--no-sync"])
    command = [
        str(postgres_binary("postgres")), "-D", str(data), "-p", str(port), "-k", str(folder),
        "-c", "listen_addresses=127.0.0.1",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, user=server_user())
    try:
        _wait(f"postgresql://faultline@127.0.0.1:{port}/postgres", server)
        yield f"postgresql://faultline@127.0.0.1:{port}/postgres"
    finally:
        server.terminate()
        server.wait(timeout=30)
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
