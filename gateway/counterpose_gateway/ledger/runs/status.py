"""Status: the look at a run's row that every poll takes.

A glance has the columns of the row that the run's answer shows, as the driver gives them. Two equal glances
mean an unchanged run, so that nothing need be decoded, checked and written again.

Events: what happened to a run, and what is new in many runs at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from counterpose_core.contract.runs import RequestCounts, Run, RunEvent
from counterpose_core.errors import NotFound
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


_events = schema.events.c

_TOGETHER = 500
"""Runs asked for by one statement; SQLite takes 32,766 parameters, and plans grow with them."""


class Events:
    """The events of runs."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def page(self, run_id: str, *, after: int, limit: int = 500) -> list[RunEvent]:
        """Return the events of a run with larger ids than ``after``, oldest first."""
        query = select(schema.events).where(_events.run_id == run_id, _events.id > after)
        if self._session.tenant is not None:
            query = query.join(schema.runs, _runs.id == _events.run_id).where(
                _runs.tenant == self._session.tenant
            )
        with self._session.reading() as connection:
            found = connection.execute(query.order_by(_events.id).limit(limit)).mappings().all()
        return [rows.event(row) for row in found]

    def last(self, run_id: str) -> RunEvent:
        """Return the newest event of a run.

        Raises:
            NotFound: the run does not exist.
        """
        query = select(schema.events).where(_events.run_id == run_id).order_by(_events.id.desc())
        with self._session.reading() as connection:
            rows.run_row(connection, run_id)
            row = rows.first(connection, query)
        if row is None:
            raise NotFound(f"run {run_id!r} has no event yet; ask for its state")
        return rows.event(row)

    def new(self, after: Mapping[str, int], *, limit: int = 500) -> dict[str, list[RunEvent]]:
        """Return the events of each run after its number, oldest first; a run that is gone is left out.

        ``after`` has the number of the last known event by run; at most ``limit`` events of a run come.
        """
        found: dict[str, list[RunEvent]] = {}
        with self._session.reading() as connection:
            for run_id, newest in _newest(connection, list(after)):
                known = after[run_id]
                found[run_id] = _events_after(connection, run_id, known, limit) if newest > known else []
        return found


def _newest(connection: Connection, run_ids: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield each run that exists with the number of its newest event, or 0."""
    # The greatest number by the index, one step a run: grouping would read all events of the run.
    greatest = select(func.max(_events.id)).where(_events.run_id == _runs.id).scalar_subquery()
    for start in range(0, len(run_ids), _TOGETHER):
        some = run_ids[start : start + _TOGETHER]
        mine = (rows.KEPT, rows.is_own(connection, _runs.tenant))
        for row in connection.execute(select(_runs.id, greatest).where(_runs.id.in_(some), *mine)):
            yield row[0], row[1] or 0


def _events_after(connection: Connection, run_id: str, after: int, limit: int) -> list[RunEvent]:
    query = select(schema.events).where(_events.run_id == run_id, _events.id > after)
    found = connection.execute(query.order_by(_events.id).limit(limit)).mappings()
    return [rows.event(row) for row in found]
