"""The base of every part of the ledger: the database and the clock."""

from __future__ import annotations

from collections.abc import Callable

from faultline_gateway.ledger.database import Database


class LedgerPart:
    """Some of the ledger's operations on one database; ``clock`` returns seconds since the epoch."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
