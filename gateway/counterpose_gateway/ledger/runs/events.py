"""Events: what happened to a run, and what is new in many runs at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import Connection, func, select

from counterpose_core.contract.runs import RunEvent
from counterpose_core.errors import NotFound
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.tables import rows, schema

_runs = schema.runs.c
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
