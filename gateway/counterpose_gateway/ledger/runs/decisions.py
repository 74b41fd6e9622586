"""Decisions on the thresholds of a benchmark's shifts: author, value and date; none is ever overwritten."""

from __future__ import annotations

from sqlalchemy import RowMapping, insert, select

from counterpose_core.contract.shift_thresholds import ShiftThresholdDecision
from counterpose_core.shift_benchmark.shift_thresholds import ShiftDecision
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.tables import rows, schema

_decisions = schema.shift_decisions.c


class Decisions:
    """Reviewers' decisions on the thresholds of a benchmark's shifts."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, run_id: str, decision: ShiftDecision) -> ShiftThresholdDecision:
        """Keep a decision, from now on the one in force for its shift.

        Raises:
            NotFound: the run does not exist.
        """
        row = vars(decision) | {
            "run_id": run_id,
            "decided_at": decision.decided_at.timestamp(),
            "failing_above": list(decision.failing_above),
        }
        with self._session.writing() as connection:
            rows.locked_run(connection, run_id)
            statement = insert(schema.shift_decisions).values(row).returning(*_decisions)
            return _decision(connection.execute(statement).mappings().one())

    def of_run(self, run_id: str) -> list[ShiftThresholdDecision]:
        """Return every decision on a run, oldest first."""
        query = select(schema.shift_decisions).where(_decisions.run_id == run_id).order_by(_decisions.id)
        if self._session.tenant is not None:
            query = query.join(schema.runs).where(schema.runs.c.tenant == self._session.tenant)
        with self._session.reading() as connection:
            return [_decision(row) for row in connection.execute(query).mappings()]


def _decision(row: RowMapping) -> ShiftThresholdDecision:
    return ShiftThresholdDecision.model_validate(dict(row))
