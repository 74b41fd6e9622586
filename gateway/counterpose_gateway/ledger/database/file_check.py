"""A look through SQLite's file before it is used: SQLite itself notices damage only where it reads."""

from __future__ import annotations

import logging
import sqlite3
import threading

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from counterpose_gateway.ledger.database.errors import damaged

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
