"""The one database of a simulation's processes, in whose transactions faults occur.

All seeds share its engine, one after the other: compiling the ledger's statements anew would take most of the
time. A process that dies loses its connections as it does in life: what it has not committed is rolled back.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event

from counterpose_gateway.ledger.database.engine import Database
from fakes.ledgers import migrated_file
from simulation.processes import PROCESS

_MEMORY = Path("/dev/shm")
"""A folder in memory where there is one: commits cost no disk."""


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None)


@cache
def _database() -> Database:
    database = Database(migrated_file(Path(_folder().name)))
    event.listen(database.engine, "begin", _before_lock)
    event.listen(database.engine, "commit", _before_commit)
    return database


def shared_database(*_: Any, **__: Any) -> Database:
    """Stand in for the class where a ledger opens its database."""
    return _database()


def empty_ledger() -> Path:
    """Empty the database, and return its file."""
    _database().close()
    folder = Path(_folder().name)
    for left in folder.iterdir():
        left.unlink()
    migrated_file(folder)
    return folder / "ledger.db"


def _before_lock(connection: Connection) -> None:
    process = PROCESS.get(None)
    if process is not None and not connection.get_execution_options().get("counterpose_read_only", False):
        process.before_lock()


def _before_commit(_: Connection) -> None:
    if (process := PROCESS.get(None)) is not None:
        process.before_commit()
