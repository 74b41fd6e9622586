"""What an operator watches, read at once: totals of the runs, counts of all processes, and the workers.

Workers are other processes than the gateways, and have no address that could be asked. So every process adds
what it has counted to the ledger each ten seconds, and any gateway tells it for all.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import JSON, Connection, bindparam, delete, func, select, text

from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.tables import schema, totals
from counterpose_gateway.records.measurements import Measurements, WorkerReading

SEEN_SECONDS = 45.0
"""A worker that has not told of itself for so long is not counted: it tells each ten seconds."""

FORGOTTEN_SECONDS = 3600.0
"""After so long, the reading of a worker that is gone is deleted."""

_workers = schema.worker_readings.c
_OLDEST = select(func.min(schema.runs.c.created_at)).where(schema.RUNS_UNDER_WAY)
_MESSAGES = select(func.count()).select_from(schema.deliveries).where(schema.PENDING_DELIVERIES)

# As text: both databases have it, and SQLAlchemy two names for it.
_ADDING = text(
    "INSERT INTO process_counts (series, amount) VALUES (:series, :amount) "
    "ON CONFLICT (series) DO UPDATE SET amount = process_counts.amount + excluded.amount"
)
_NOTING = text(
    "INSERT INTO worker_readings (worker, seen_at, reading) VALUES (:worker, :seen_at, :reading) "
    "ON CONFLICT (worker) DO UPDATE SET seen_at = excluded.seen_at, reading = excluded.reading"
).bindparams(bindparam("reading", type_=JSON))


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
            connection.execute(_ADDING, rows)

    def note_worker(self, reading: WorkerReading) -> None:
        """Note what a worker does now, and delete the readings of those that are long gone."""
        now = self._session.clock()
        values = {"worker": reading.worker, "seen_at": now, "reading": reading.model_dump(mode="json")}
        with self._session.writing() as connection:
            connection.execute(_NOTING, values)
            connection.execute(
                delete(schema.worker_readings).where(_workers.seen_at < now - FORGOTTEN_SECONDS)
            )

    def forget_worker(self, worker: str) -> None:
        """Delete the reading of a worker that has ended."""
        with self._session.writing() as connection:
            connection.execute(delete(schema.worker_readings).where(_workers.worker == worker))


def _seen_since(connection: Connection, moment: float) -> list[WorkerReading]:
    query = select(_workers.reading).where(_workers.seen_at >= moment).order_by(_workers.worker)
    return [WorkerReading.model_validate(each) for each in connection.execute(query).scalars()]
