"""Whose run is served next: tenants take turns, and the runs of a tenant among themselves.

``served_at`` is a place in one queue. The runs of a tenant stand one behind another, one place apart; a run
that was served goes behind all of them. So at each place every tenant has one run: one with a hundred runs is
served as often as one with a single run (start-time fair queueing, Goyal, Vin and Cheng, 1996).
"""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from counterpose_gateway.ledger.tables import schema

_runs = schema.runs.c

_OTHERS = _runs.id != bindparam("of_run")
_LAST = (
    select(_runs.served_at)
    .where(schema.RUNS_TO_SERVE, _runs.tenant == bindparam("of_tenant"), _OTHERS)
    .order_by(_runs.served_at.desc())
    .limit(1)
)
_FIRST = select(_runs.served_at).where(schema.RUNS_TO_SERVE, _OTHERS).order_by(_runs.served_at).limit(1)


def place(connection: Connection, run_id: str, tenant: str, served_at: float | None = None) -> float:
    """Return where a run stands next.

    Args:
        connection: a transaction.
        run_id: the run.
        tenant: whose it is.
        served_at: where it stood when it was served; None for one that is new, or goes on again.
    """
    last = connection.execute(_LAST, {"of_run": run_id, "of_tenant": tenant}).scalar()
    first = connection.execute(_FIRST, {"of_run": run_id}).scalar()
    behind = [each + 1.0 for each in (last, served_at) if each is not None]
    return max([*behind, 0.0 if first is None else first])
