"""What the parts of a ledger share: the database as its tenant sees it, the time, and the lease time.

The time that leases and pauses are measured by; no setting of a machine's clock moves it.

A wall clock that is set back would keep the items of a dead worker leased for as long, and one that is set
forward would take them from a living one. So lease time goes on with the machine's monotonic clock, which all
its processes share until it is started anew, from a reading that the ledger keeps. It begins as seconds since
the epoch and may differ from them later: what people read is stamped by the wall clock.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, text, update

from counterpose_gateway.ledger.database.engine import Database
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.ledger.tables.rows import dataset_key
from counterpose_processes.system import monotonic_clock

Found = TypeVar("Found")
Leased = TypeVar("Leased")


class Session:
    """Passed on from part to part, so that what spans several of them is one transaction.

    ``clock`` returns seconds since the epoch, ``lease_time`` the seconds that leases are measured by.
    ``tenant``: whose objects are shown; None for everybody's. ``place``: the furthest place of a run that was
    served through this session.
    """

    def __init__(self, database: Database, clock: Callable[[], float], lease_time: LeaseTime) -> None:
        self.database = database
        self.clock = clock
        self.lease_time = lease_time
        self.tenant = database.tenant
        self.place = 0.0
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


NOTED_SECONDS = 30.0
"""How often a working process notes its reading: a machine that is started anew goes on from the last one."""

_FORGOTTEN_SECONDS = 7 * 86400.0
"""How long a machine's last reading is kept; without it the machine begins with the latest of the others."""

_readings = schema.lease_readings.c


@dataclass(frozen=True)
class Steady:
    """A clock that only goes on, read in seconds; processes with one ``name`` read the same."""

    name: str
    read: Callable[[], float]


def steady_clock() -> Steady:
    """Return the machine's monotonic clock, named after the machine's start where the system has a name."""
    # Without a name the process shares its clock with no other, and begins with the latest reading of all.
    return Steady(monotonic_clock() or uuid.uuid4().hex, time.monotonic)


class LeaseTime:
    """The lease time of one process; the ledger's methods call it for seconds.

    ``wall`` returns seconds since the epoch; None asks PostgreSQL, whose clock is one for all machines.
    """

    def __init__(self, database: Database, steady: Steady, wall: Callable[[], float] | None) -> None:
        self._database = database
        self._steady = steady
        with database.writing() as connection:
            database.hold_start(connection)
            self._ahead = self._begun(connection, wall) - steady.read()
            self._write(connection)
            old = _readings.lease_time < self() - _FORGOTTEN_SECONDS
            connection.execute(delete(schema.lease_readings).where(old))
        self._noted_at = steady.read()

    def __call__(self) -> float:
        """Return the time; this asks nobody."""
        return self._ahead + self._steady.read()

    def note(self) -> None:
        """Write down the reading if that is due, in a transaction of its own, and keep up with the machines.

        Called before a transaction that leases or renews: within it, two processes that note could each hold
        what the other waits for.
        """
        if self._steady.read() < self._noted_at + NOTED_SECONDS:
            return
        self._noted_at = self._steady.read()
        with self._database.writing() as connection:
            # A machine that slept is behind; one whose start was stamped by a fast clock is ahead of all.
            self._ahead += max(0.0, _latest(connection) - self())
            self._write(connection)

    def _begun(self, connection: Connection, wall: Callable[[], float] | None) -> float:
        known = rows.first(connection, select(schema.lease_readings).where(self._mine))
        now, latest = self._steady.read(), _latest(connection)
        if known is not None and known["reading"] <= now:
            # Exact, and whatever was done to the wall clock since.
            return max(latest, float(known["lease_time"]) + now - float(known["reading"]))
        return max(latest, wall() if wall is not None else _wall_of_server(connection))

    def _write(self, connection: Connection) -> None:
        values = {"lease_time": self(), "reading": self._steady.read()}
        if not connection.execute(update(schema.lease_readings).where(self._mine).values(values)).rowcount:
            connection.execute(insert(schema.lease_readings).values(machine=self._steady.name, **values))

    @property
    def _mine(self) -> ColumnElement[bool]:
        return _readings.machine == self._steady.name


def _latest(connection: Connection) -> float:
    return float(connection.execute(select(func.max(_readings.lease_time))).scalar_one() or 0.0)


def _wall_of_server(connection: Connection) -> float:
    return float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
