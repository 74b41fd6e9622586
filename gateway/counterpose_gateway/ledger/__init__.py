"""The ledger: the state of datasets, runs and their items, composed of parts by noun."""

from __future__ import annotations

import copy
import datetime as dt
import time
from collections.abc import Callable

from counterpose_gateway.ledger.access import Access
from counterpose_gateway.ledger.blobs import Blobs
from counterpose_gateway.ledger.database.engine import CHECK_SECONDS, Database
from counterpose_gateway.ledger.database.session import LeaseTime, Session, Steady, steady_clock
from counterpose_gateway.ledger.datasets.datasets import Datasets
from counterpose_gateway.ledger.datasets.imports import Imports
from counterpose_gateway.ledger.idempotency import Idempotency
from counterpose_gateway.ledger.identity import Identity
from counterpose_gateway.ledger.items.items import Items
from counterpose_gateway.ledger.jobs import Jobs
from counterpose_gateway.ledger.measurements import MeasurementRows
from counterpose_gateway.ledger.runs.decisions import Decisions
from counterpose_gateway.ledger.runs.runs import Runs
from counterpose_gateway.ledger.runs.spending import SpendingRows
from counterpose_gateway.ledger.runs.stages import Stages
from counterpose_gateway.ledger.runs.status import Events, Status
from counterpose_gateway.ledger.webhooks import Webhooks

__all__ = ["Ledger"]


class Ledger:
    """One SQLite file or PostgreSQL database, shared by any number of processes and threads.

    ``url`` is an SQLAlchemy URL (``sqlite:///path`` or ``postgresql://...``); the schema is migrated to
    its newest revision at once. ``clock`` returns seconds since the epoch, and ``steady`` measures leases:
    if left out, the machine's monotonic clock, or ``clock`` where one is given. ``check_seconds`` bounds the
    look for damage in SQLite's file, and 0 leaves it out.

    Raises:
        LedgerDamaged: the file is damaged, or is no database.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Callable[[], float] = time.time,
        steady: Steady | None = None,
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        database = Database(url, check_seconds=check_seconds)
        own = clock is time.time
        wall = None if own and not database.is_sqlite else clock
        given = steady or (steady_clock() if own else Steady("given", clock))
        self._compose(Session(database, clock, LeaseTime(database, given, wall)))

    def _compose(self, session: Session) -> None:
        self._session = session
        self.runs = Runs(session)
        self.stages = Stages(session)
        self.spending = SpendingRows(session)
        self.events = Events(session)
        self.status = Status(session)
        self.decisions = Decisions(session)
        self.items = Items(session)
        self.datasets = Datasets(session)
        self.imports = Imports(session)
        self.jobs = Jobs(session)
        self.webhooks = Webhooks(session)
        self.access = Access(session)
        self.blobs = Blobs(session)
        self.idempotency = Idempotency(session)
        self.identity = Identity(session)
        self.measurements = MeasurementRows(session)

    @property
    def tenant(self) -> str:
        """Whose objects it shows; empty for everybody's."""
        return self._session.tenant or ""

    def of(self, tenant: str) -> Ledger:
        """Return the ledger as a tenant sees it: other tenants' objects do not exist, new ones are its own.

        It shares all connections with this one, which is the one to close.
        """
        view = copy.copy(self)
        view._compose(self._session.of(tenant))
        return view

    def of_run(self, run_id: str) -> Ledger:
        """Return the ledger as the tenant of a run sees it; raises `NotFound`."""
        return self if self._session.tenant is not None else self.of(self.runs.tenant_of(run_id))

    def now(self) -> dt.datetime:
        """The ledger's time, in UTC: decisions are dated by it as runs are."""
        return dt.datetime.fromtimestamp(self._session.clock(), dt.UTC)

    @property
    def failure(self) -> str | None:
        """What failed on the disk as this process wrote; every further write is refused."""
        return self._session.database.failure

    def check_ready(self, least_free_bytes: int) -> None:
        """Check that the database can take more, as far as that shows without writing.

        Raises:
            LedgerDamaged: it was found to be damaged.
            DiskFailed: its disk failed.
            StorageFull: SQLite's disk has fewer free bytes than given.
        """
        self._session.database.check_ready(least_free_bytes)

    def roll_back(self, revision: str) -> None:
        """Bring the database back to an earlier revision, before an earlier version is installed.

        Raises:
            InvalidRequest: there is no such revision.
        """
        self._session.database.roll_back(revision)

    def close(self) -> None:
        """Close every connection."""
        self._session.database.close()
