"""Delete runs that have ended; what is left of one is its id, its kind and what it cost."""

from __future__ import annotations

from sqlalchemy import delete, insert, select

from faultline_core.errors import RunNotDeletable
from faultline_core.types import FINAL_RUN_STATES
from faultline_gateway.ledger import rows, schema
from faultline_gateway.ledger.database import LedgerPart

_runs = schema.runs.c
_TABLES_OF_A_RUN = (schema.items, schema.events, schema.shift_decisions)


class Deletions(LedgerPart):
    """The part of the ledger that forgets runs."""

    def delete_run(self, run_id: str) -> None:
        """Delete an ended run with its items, events and decisions.

        Images stay in the store: they are named by their content, so other runs may show the same ones.

        Raises:
            NotFound: the run does not exist, or it was deleted before.
            RunNotDeletable: it has not ended, or it continues a run that still exists.
        """
        with self._database.writing() as connection:
            run = rows.locked_run(connection, run_id)
            if run["state"] not in FINAL_RUN_STATES:
                raise RunNotDeletable(f"run {run_id!r} is {run['state']}; cancel it, then delete it")
            parent = run["parent"]
            if parent and rows.first(connection, select(_runs.id).where(_runs.id == parent)):
                # Evidence that multiplies over attempts is only valid if no attempt can be left out.
                raise RunNotDeletable(
                    f"run {run_id!r} is part of the evidence of run {parent!r}; delete that one first"
                )
            for table in _TABLES_OF_A_RUN:
                connection.execute(delete(table).where(table.c.run_id == run_id))
            connection.execute(delete(schema.runs).where(_runs.id == run_id))
            # The cost goes on counting: a counter of money that falls would alarm whoever watches it.
            gone = {"id": run_id, "kind": run["kind"], "deleted_at": self._clock(), "cost": run["cost"]}
            connection.execute(insert(schema.deleted_runs).values(gone))
