"""Which ledger this is and how far it got, as the store that belongs to it knows it."""

from __future__ import annotations

from sqlalchemy import exists, func, select, update

from counterpose_core.blobs import Mark
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.tables import schema

_MARK = select(schema.ledger_identity)
_LAST = select(func.max(schema.events.c.id))
_HOLDING = (schema.runs, schema.deleted_runs, schema.datasets, schema.kept_blobs)
"""Tables of which each ledger has rows that was ever used with a store."""


class Identity:
    """The ledger's id, and the number of its last event."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def mark(self) -> Mark:
        """Return both, once the number is noted durably: it never falls, whatever is deleted."""
        with self._session.reading() as connection:
            known, last = Mark(*connection.execute(_MARK).one()), connection.execute(_LAST).scalar() or 0
        if last <= known.event:
            return known
        row = schema.ledger_identity.c
        with self._session.writing() as connection:
            # Another process may have noted a later one meanwhile.
            mine = update(schema.ledger_identity).where(row.last_event < last)
            connection.execute(mine.values(last_event=last))
        return Mark(known.ledger, last)

    def is_empty(self) -> bool:
        """Return whether the ledger has no dataset, no run and nothing that a tenant keeps."""
        with self._session.reading() as connection:
            return not any(
                connection.execute(select(exists(select(1).select_from(table)))).scalar_one()
                for table in _HOLDING
            )
