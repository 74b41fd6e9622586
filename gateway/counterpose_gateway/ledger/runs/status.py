"""Status: the look at a run's row that every poll takes.

A glance has the columns of the row that the run's answer shows, as the driver gives them. Two equal glances
mean an unchanged run, so that nothing need be decoded, checked and written again.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from sqlalchemy import select

from counterpose_core.contract.runs import RequestCounts, Run
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.tables import rows, schema

_runs = schema.runs.c

_UNSEEN = frozenset(
    {
        "config", "functions", "idempotency_key", "fingerprint", "served_at", "cost", "staged",
        "planning_fence", "planning_attempts", "planning_due_at", "tenant",
    }
)  # fmt: skip
"""Columns that no answer shows, and the configuration, which never changes and may be long."""

COLUMNS = tuple(column for column in schema.runs.c if column.name not in _UNSEEN)
"""All others, so that a column that is added later is looked at, too."""

_NAMES = tuple(column.name for column in COLUMNS)
_STATE, _KIND = _NAMES.index("state"), _NAMES.index("kind")

GLANCE = (
    f"SELECT {', '.join(_NAMES)} FROM runs "
    "WHERE id = :run AND state <> 'deleting' AND (:tenant IS NULL OR tenant = :tenant)"
)
"""The look at one run of a tenant's, or of anybody's, for SQLite's driver."""


class Glance(NamedTuple):
    """The visible columns of a run at one moment."""

    values: tuple[Any, ...]

    @property
    def state(self) -> str:
        """The state of the run."""
        return str(self.values[_STATE])

    @property
    def kind(self) -> str:
        """The kind of the run."""
        return str(self.values[_KIND])

    @property
    def counts(self) -> RequestCounts:
        """The run's items by state."""
        return rows.counts(dict(zip(_NAMES, self.values, strict=True)))

    def run(self, config: dict[str, Any]) -> Run:
        """Return the run with a configuration, which a glance leaves out."""
        row = dict(zip(_NAMES, self.values, strict=True))
        # SQLite's driver gives JSON as text, PostgreSQL's decodes it.
        if isinstance(row["problem"], str):
            row["problem"] = json.loads(row["problem"])
        return rows.run({**row, "config": config})


class Status:
    """The status of runs, as polls ask for it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def glances_at_once(self) -> bool:
        """Whether a glance takes microseconds and waits for nobody, so that it needs no thread."""
        return self._session.database.is_sqlite

    def glance(self, run_id: str) -> Glance | None:
        """Return the newest committed row of a run as a glance; None if it cannot be had in this short way.

        So it is if there is no such run, or if the database is in trouble: `Runs.get` says which.
        """
        if self._session.database.is_damaged:
            return None
        if self._session.database.is_sqlite:
            looked_for = {"run": run_id, "tenant": self._session.tenant}
            found = self._session.database.read_row(GLANCE, looked_for)
            return None if found is None else Glance(found)
        with self._session.reading_last_commit() as connection:
            mine = rows.is_own(connection, _runs.tenant)
            row = connection.execute(select(*COLUMNS).where(_runs.id == run_id, rows.KEPT, mine)).first()
        return None if row is None else Glance(tuple(row))
