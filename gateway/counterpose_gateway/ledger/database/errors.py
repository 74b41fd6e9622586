"""What a database could not do, as an error that says what to do: full, damaged, or not at hand.

A look through SQLite's file before it is used: SQLite itself notices damage only where it reads.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
import threading
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import DatabaseError, DataError, OperationalError

from counterpose_core.errors import (
    BackendUnavailable,
    CounterposeError,
    DiskFailed,
    InvalidRequest,
    LedgerDamaged,
    StorageFull,
)

_FULL = frozenset({"SQLITE_FULL", "53100"})
_DAMAGED = frozenset({"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT", "XX001", "XX002"})
_NOT_SYNCED = ("SQLITE_IOERR_FSYNC", "SQLITE_IOERR_DIR_FSYNC")
_CANNOT_WRITE = ("SQLITE_IOERR", "SQLITE_CANTOPEN")
_NO_ROOM_BYTES = 1_000_000
"""With less than this, SQLite's "disk I/O error" and "unable to open database file" mean a full disk."""


def translation(error: DatabaseError, folder: Path | None) -> CounterposeError | None:
    """Return Counterpose's error for the driver's; None if it is a defect of our own or a broken constraint.

    ``folder`` is where SQLite's file is; None for PostgreSQL.
    """
    reason = (str(error.orig).splitlines() or ["no reason"])[0]
    name = _name(error)
    if name in _FULL or (name.startswith(_CANNOT_WRITE) and folder is not None and _has_no_room(folder)):
        return StorageFull("the ledger's disk is full; free some space, then retry")
    if name in _NOT_SYNCED:
        return DiskFailed(f"the ledger's disk failed: {reason}; check it, then start anew")
    # Text that is no UTF-8 was never written so: each driver encodes what it stores.
    if any(name.startswith(each) for each in _DAMAGED) or "Could not decode to UTF-8" in reason:
        return damaged(reason)
    if isinstance(error, OperationalError):
        return BackendUnavailable(f"the ledger does not answer: {reason}; check its database, then retry")
    if isinstance(error, DataError):
        return InvalidRequest(f"the ledger cannot keep this: {reason}")
    return None


def damaged(finding: str) -> LedgerDamaged:
    """Return the error of a damaged ledger; ``finding`` is what was found."""
    return LedgerDamaged(
        f"the ledger is damaged: {finding}; stop gateway and workers, restore its database from the last "
        "backup, then start them again"
    )


def _name(error: DatabaseError) -> str:
    """SQLite's name of the error, or PostgreSQL's five characters: their messages may change or be German."""
    found = getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None)
    return str(found or "")


def _has_no_room(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < _NO_ROOM_BYTES
    except OSError:
        return False


INTERRUPTION_SECONDS = 0.01

_logger = logging.getLogger(__name__)


def check_file(connection: Connection, seconds: float) -> None:
    """Check pages, records and the order of indexes, for so many seconds at most; log if that was too short.

    Raises:
        LedgerDamaged: something does not fit; the error names the first.
    """
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    ended = threading.Event()
    # From another thread: SQLite before 3.41 calls no progress handler while it goes through a table.
    end = threading.Thread(target=_interrupt_after, args=(driver, seconds, ended), daemon=True)
    end.start()
    try:
        found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
    except OperationalError as error:
        if getattr(error.orig, "sqlite_errorname", "") != "SQLITE_INTERRUPT":
            raise
        _logger.warning(
            "only a part of the ledger was checked for damage in %g s; "
            "COUNTERPOSE_LEDGER_CHECK_SECONDS=3600 checks it whole",
            seconds,
        )
        return
    finally:
        ended.set()
        end.join()
    if found != "ok":
        raise damaged(str(found).strip().splitlines()[-1])


def _interrupt_after(driver: sqlite3.Connection, seconds: float, ended: threading.Event) -> None:
    """Interrupt again and again: SQLite forgets an interruption that comes before its statement has begun."""
    while not ended.wait(seconds):
        driver.interrupt()
        seconds = INTERRUPTION_SECONDS
