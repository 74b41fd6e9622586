"""The budgets of runs, which few have: what they may ask servers of others for."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, delete, insert, select

from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.records.spending import Allotment

_limits = schema.spending_limits.c
_MINE = _limits.run_id == bindparam("run")
_OF_RUN = select(_limits.limits).where(_MINE)
_NONE = delete(schema.spending_limits).where(_MINE)


def limits_of(connection: Connection, run_id: str) -> Allotment | None:
    """Return the budget of a locked run, or None if it has none and no prices."""
    found = connection.execute(_OF_RUN, {"run": run_id}).scalar()
    return None if found is None else Allotment.model_validate(found)


def write_limits(connection: Connection, run_id: str, limits: Allotment) -> None:
    """Write the budget of a locked run."""
    connection.execute(_NONE, {"run": run_id})
    values = {"run_id": run_id, "limits": limits.model_dump(mode="json")}
    connection.execute(insert(schema.spending_limits).values(values))
