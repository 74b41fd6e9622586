"""The ledger: the state of datasets, runs and their items; import it from this module only."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable

from counterpose_gateway.ledger.access.keys import AccessKeys
from counterpose_gateway.ledger.access.quotas import TenantQuotas
from counterpose_gateway.ledger.blobs.loose_digests import LooseDigests
from counterpose_gateway.ledger.blobs.uses import BlobUses
from counterpose_gateway.ledger.database.engine import Database
from counterpose_gateway.ledger.database.file_check import CHECK_SECONDS
from counterpose_gateway.ledger.database.lease_time import LeaseTime, Steady, steady_clock
from counterpose_gateway.ledger.datasets.deletions import DatasetDeletions
from counterpose_gateway.ledger.datasets.import_records import ImportRecords
from counterpose_gateway.ledger.datasets.imports import Imports
from counterpose_gateway.ledger.datasets.source_tables import SourceTables
from counterpose_gateway.ledger.idempotency import IdempotencyKeys, StoredAnswer
from counterpose_gateway.ledger.items.leases import Leases
from counterpose_gateway.ledger.items.outcomes import Outcomes
from counterpose_gateway.ledger.items.pages import ItemPages
from counterpose_gateway.ledger.items.recorded import RecordedItems
from counterpose_gateway.ledger.jobs.jobs import Jobs
from counterpose_gateway.ledger.jobs.leases import JobLeases
from counterpose_gateway.ledger.measurements import MeasurementRows
from counterpose_gateway.ledger.runs.audit import Audit
from counterpose_gateway.ledger.runs.cancellations import Cancellations
from counterpose_gateway.ledger.runs.decisions import ShiftDecisions
from counterpose_gateway.ledger.runs.deletions import Deletions
from counterpose_gateway.ledger.runs.events import NewEvents
from counterpose_gateway.ledger.runs.first_stages import FirstStages
from counterpose_gateway.ledger.runs.interrupted import Interrupted
from counterpose_gateway.ledger.runs.large_runs import LargeRuns
from counterpose_gateway.ledger.runs.resumptions import Resumptions
from counterpose_gateway.ledger.runs.runs import Runs
from counterpose_gateway.ledger.runs.stages import Stages
from counterpose_gateway.ledger.runs.status import StatusReads
from counterpose_gateway.ledger.webhooks.outbox import Outbox
from counterpose_gateway.ledger.webhooks.webhooks import Webhooks

__all__ = ["Ledger", "StoredAnswer"]


class Ledger(
    DatasetDeletions, Imports, ImportRecords, Runs, ItemPages, Cancellations, Resumptions, RecordedItems,
    StatusReads, NewEvents, Deletions, Leases, Outcomes, FirstStages, Stages, ShiftDecisions, IdempotencyKeys,
    Interrupted, Audit, LargeRuns, SourceTables, Jobs, JobLeases, MeasurementRows, Webhooks, Outbox,
    AccessKeys, BlobUses, LooseDigests, TenantQuotas,
):  # fmt: skip
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
        super().__init__(database, clock)
        own = clock is time.time
        wall = None if own and not database.is_sqlite else clock
        given = steady or (steady_clock() if own else Steady("given", clock))
        self._lease_time = LeaseTime(database, given, wall)

    def of(self, tenant: str) -> Ledger:
        """Return the ledger as a tenant sees it: other tenants' objects do not exist, new ones are its own.

        It shares all connections with this one, which is the one to close.
        """
        view = copy.copy(self)
        view._database = self._database.of(tenant)
        return view

    def of_run(self, run_id: str) -> Ledger:
        """Return the ledger as the tenant of a run sees it; raises `NotFound`."""
        return self if self._tenant is not None else self.of(self.tenant_of(run_id))

    @property
    def failure(self) -> str | None:
        """What failed on the disk as this process wrote; every further write is refused."""
        return self._database.failure

    def check_ready(self, least_free_bytes: int) -> None:
        """Check that the database can take more, as far as that shows without writing.

        Raises:
            LedgerDamaged: it was found to be damaged.
            DiskFailed: its disk failed.
            StorageFull: SQLite's disk has fewer free bytes than given.
        """
        self._database.check_ready(least_free_bytes)

    def roll_back(self, revision: str) -> None:
        """Bring the database back to an earlier revision, before an earlier version is installed.

        Raises:
            InvalidRequest: there is no such revision.
        """
        self._database.roll_back(revision)

    def close(self) -> None:
        """Close every pooled connection."""
        self.close_reader()
        self._database.close()
