"""What the parts of a ledger share: the database as its tenant sees it, the time, and the lease time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from counterpose_gateway.ledger.database.engine import Database
from counterpose_gateway.ledger.database.lease_time import LeaseTime
from counterpose_gateway.ledger.tables.rows import dataset_key

Found = TypeVar("Found")
Leased = TypeVar("Leased")


class Session:
    """Passed on from part to part, so that what spans several of them is one transaction.

    ``clock`` returns seconds since the epoch, ``lease_time`` the seconds that leases are measured by.
    ``tenant``: whose objects are shown; None for everybody's.
    """

    def __init__(self, database: Database, clock: Callable[[], float], lease_time: LeaseTime) -> None:
        self.database = database
        self.clock = clock
        self.lease_time = lease_time
        self.tenant = database.tenant
        self.reading, self.reading_last_commit = database.reading, database.reading_last_commit
        self.writing, self.erasing = database.writing, database.erasing

    def of(self, tenant: str) -> Session:
        """Return the session of a tenant on the same database."""
        return Session(self.database.of(tenant), self.clock, self.lease_time)

    def key(self, name: str) -> str:
        """Return the key of the dataset that the tenant calls ``name``; who sees all names it by its key."""
        return dataset_key(self.tenant, name)

    def lease_first(
        self, look: Callable[[Connection], Found | None], lease: Callable[[Connection, Found], Leased | None]
    ) -> Leased | None:
        """Lease what ``look`` finds; look again if another worker took it first, until nothing is found."""
        with self.reading() as connection:
            # Idle workers ask twice a second each; without work they must not queue for the write lock.
            if look(connection) is None:
                return None
        while True:
            # One transaction per look: on PostgreSQL another worker may take the candidate between look and
            # lock, and a worker that then locked a second run could wait for one that waits for the first.
            with self.writing() as connection:
                found = look(connection)
                if found is None:
                    return None
                leased = lease(connection, found)
            if leased is not None:
                return leased
