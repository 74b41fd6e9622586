"""Status reads: the look at a run's row that every poll takes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from sqlalchemy import select
from sqlalchemy.exc import DatabaseError

from counterpose_gateway.ledger.database.engine import Database, LedgerPart
from counterpose_gateway.ledger.runs.glances import COLUMNS, GLANCE, Glance
from counterpose_gateway.ledger.tables import rows, schema

_runs = schema.runs.c


@dataclass
class _Looks:
    """The connection of the glances, which every tenant's view shares."""

    reader: sqlite3.Connection | None = None
    lock: Lock = field(default_factory=Lock)


class StatusReads(LedgerPart):
    """The part of the ledger that polls call."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        super().__init__(database, clock)
        self._looks = _Looks()

    @property
    def glances_at_once(self) -> bool:
        """Whether a glance takes microseconds and waits for nobody, so that it needs no thread."""
        return self._database.is_sqlite

    def glance(self, run_id: str) -> Glance | None:
        """Return the newest committed row of a run as a glance; None if it cannot be had in this short way.

        So it is if there is no such run, or if the database is in trouble: `Ledger.run` says which.
        """
        if self._database.is_damaged:
            return None
        if self._database.is_sqlite:
            return self._glance_of_file(run_id)
        with self._database.reading_last_commit() as connection:
            mine = rows.is_own(connection, _runs.tenant)
            row = connection.execute(select(*COLUMNS).where(_runs.id == run_id, rows.KEPT, mine)).first()
        return None if row is None else Glance(tuple(row))

    def close_reader(self) -> None:
        """Close the connection of the glances."""
        with self._looks.lock:
            if self._looks.reader is not None:
                self._looks.reader.close()
                self._looks.reader = None

    def _glance_of_file(self, run_id: str) -> Glance | None:
        # By the driver itself: a transaction of SQLAlchemy costs 40 times as much as this look.
        with self._looks.lock:
            try:
                if self._looks.reader is None:
                    self._looks.reader = self._database.reader_of_file()
                # All rows are fetched: an unfinished statement would keep its old state of the file.
                looked_for = {"run": run_id, "tenant": self._tenant}
                found = self._looks.reader.execute(GLANCE, looked_for).fetchall()
            except (sqlite3.Error, DatabaseError, UnicodeError):
                return None
        return Glance(found[0]) if found else None
