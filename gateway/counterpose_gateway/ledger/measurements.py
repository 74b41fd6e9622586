"""What an operator watches, read at once: totals of the runs, counts of all processes, and the workers.

Workers are other processes than the gateways, and have no address that could be asked. So every process adds
what it has counted to the ledger each ten seconds, and any gateway tells it for all.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, Table, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.tables import schema, totals
from counterpose_gateway.records.measurements import Measurements, WorkerReading

SEEN_SECONDS = 45.0
"""A worker that has not told of itself for so long is not counted: it tells each ten seconds."""

FORGOTTEN_SECONDS = 3600.0
"""After so long, the reading of a worker that is gone is deleted."""

_counts = schema.process_counts.c
_workers = schema.worker_readings.c
_OLDEST = select(func.min(schema.runs.c.created_at)).where(schema.RUNS_UNDER_WAY)
_MESSAGES = select(func.count()).select_from(schema.deliveries).where(schema.PENDING_DELIVERIES)


class MeasurementRows:
    """What is measured, and the totals over all runs."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def read(self) -> Measurements:
        """Return what an operator watches; it reads some rows, however many runs there are."""
        now = self._session.clock()
        with self._session.reading() as connection:
            oldest = connection.execute(_OLDEST).scalar_one()
            return Measurements(
                active_runs=totals.active_runs(connection),
                cost=totals.total_cost(connection),
                open_items=totals.open_items(connection),
                pending_messages=connection.execute(_MESSAGES).scalar_one(),
                oldest_seconds=0.0 if oldest is None else max(0.0, now - oldest),
                attempts=totals.attempts(connection),
                counts={row.series: row.amount for row in connection.execute(select(schema.process_counts))},
                workers=_seen_since(connection, now - SEEN_SECONDS),
            )

    def active_runs(self) -> int:
        """Return how many runs have not ended, as the ledger keeps it."""
        with self._session.reading() as connection:
            return totals.active_runs(connection)

    def add_counts(self, counts: Mapping[str, float]) -> None:
        """Add what a process has counted since it told last."""
        if not counts:
            return
        # In one order, or two processes could each hold a row that the other waits for.
        rows = [{"series": series, "amount": amount} for series, amount in sorted(counts.items())]
        with self._session.writing() as connection:
            connection.execute(self._adding, rows)

    def note_worker(self, reading: WorkerReading) -> None:
        """Note what a worker does now, and delete the readings of those that are long gone."""
        now = self._session.clock()
        values = {"worker": reading.worker, "seen_at": now, "reading": reading.model_dump(mode="json")}
        with self._session.writing() as connection:
            connection.execute(self._noting, values)
            connection.execute(
                delete(schema.worker_readings).where(_workers.seen_at < now - FORGOTTEN_SECONDS)
            )

    def forget_worker(self, worker: str) -> None:
        """Delete the reading of a worker that has ended."""
        with self._session.writing() as connection:
            connection.execute(delete(schema.worker_readings).where(_workers.worker == worker))

    @property
    def _adding(self) -> sqlite.Insert | postgresql.Insert:
        new = self._insert(schema.process_counts)
        return new.on_conflict_do_update(
            index_elements=[_counts.series], set_={"amount": _counts.amount + new.excluded.amount}
        )

    @property
    def _noting(self) -> sqlite.Insert | postgresql.Insert:
        new = self._insert(schema.worker_readings)
        changed = {"seen_at": new.excluded.seen_at, "reading": new.excluded.reading}
        return new.on_conflict_do_update(index_elements=[_workers.worker], set_=changed)

    def _insert(self, table: Table) -> sqlite.Insert | postgresql.Insert:
        return sqlite.insert(table) if self._session.database.is_sqlite else postgresql.insert(table)


def _seen_since(connection: Connection, moment: float) -> list[WorkerReading]:
    query = select(_workers.reading).where(_workers.seen_at >= moment).order_by(_workers.worker)
    return [WorkerReading.model_validate(each) for each in connection.execute(query).scalars()]
