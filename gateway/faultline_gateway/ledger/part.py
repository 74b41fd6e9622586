"""What every part of the ledger stands on: the database and the clock."""

from __future__ import annotations

from collections.abc import Callable

from faultline_gateway.ledger.database import Database


class LedgerPart:
    """Some of the ledger's verbs over one database; ``clock`` tells seconds since the epoch."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
