"""The invariants of a run and the totals of all runs, recomputed from the ledger's rows."""

from __future__ import annotations

import math

from sqlalchemy import RowMapping, func, select

from counterpose_core.types import FINAL_RUN_STATES, Cost
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.tables import rows, schema, totals

_items = schema.items.c


def violated(ledger: Ledger, run_id: str) -> list[str]:
    """Return every violated invariant of a run in words; an empty list means that all hold.

    Raises:
        NotFound: the run does not exist.
    """
    with ledger._session.reading() as connection:
        visible = rows.is_own(connection, schema.runs.c.tenant)
        run = rows.first(connection, select(schema.runs).where(schema.runs.c.id == run_id, visible))
        if run is None:
            raise rows.absent(connection, run_id)
        # Items of a stage that has not opened do not belong to the run yet.
        mine = (_items.run_id == run_id) & (_items.stage <= run["stage"])
        # Computed from the items alone: an audit that trusted the counters would check nothing.
        states = connection.execute(select(_items.state, func.count()).where(mine).group_by(_items.state))
        counted = {str(state): int(n) for state, n in states}
        keys = connection.execute(select(func.count(_items.item_key.distinct())).where(mine)).scalar_one()
        bare = select(func.count()).where(mine, _items.state == "done", _items.result.is_(None))
        without_result = connection.execute(bare).scalar_one()
        opened = select(func.min(_items.due_at)).where(mine, rows.OPEN)
        first_ready = connection.execute(opened).scalar_one()
    return [
        *_accounting(run, counted),
        *([] if keys == run["total"] else [f"{keys} distinct item keys for {run['total']} items"]),
        *([f"{without_result} done items have no result"] if without_result else []),
        *_rest(run, first_ready),
    ]


def violated_totals(ledger: Ledger) -> list[str]:
    """Return in words which totals over all runs are not what the runs say; empty if none."""
    with ledger._session.reading() as connection:
        kept = totals.active_runs(connection), totals.total_cost(connection)
        kept_open = totals.open_items(connection)
        open_items = connection.execute(select(func.sum(schema.runs.c.pending)).where(rows.KEPT))
        counted_open = open_items.scalar_one() or 0
        state, cost, gone = schema.runs.c.state, schema.runs.c.cost, schema.deleted_runs.c.cost
        going = select(func.count()).where(state.not_in(FINAL_RUN_STATES), rows.KEPT)
        active = connection.execute(going).scalar_one()
        costs = (select(cost).where(rows.KEPT), select(gone))
        noted = [each for one in costs for each in connection.execute(one).scalars()]
    spent = sum((Cost.model_validate(each) for each in noted if each is not None), Cost())
    return [
        *([] if kept[0] == active else [f"{kept[0]} runs are kept as going on, {active} go on"]),
        *([] if kept_open == counted_open else [f"{kept_open} items are kept as open, {counted_open} are"]),
        *([] if _same(kept[1], spent) else [f"the cost kept is {kept[1]}, the runs cost {spent}"]),
    ]


def _same(kept: Cost, counted: Cost) -> bool:
    # Seconds are added in another order, so their last digits may differ.
    seconds = math.isclose(kept.seconds, counted.seconds, rel_tol=1e-9, abs_tol=1e-9)
    return seconds and kept.model_copy(update={"seconds": counted.seconds}) == counted


def _accounting(run: RowMapping, counted: dict[str, int]) -> list[str]:
    actual = {name: counted.get(name, 0) for name in rows.COUNTED}
    actual["pending"] += counted.get("leased", 0)
    noted = {name: run[name] for name in rows.COUNTED}
    found = [] if actual == noted else [f"the counters say {noted}, the items {actual}"]
    if sum(actual.values()) != run["total"]:
        found.append(f"{sum(actual.values())} items for a total of {run['total']}")
    # Of a run that is being planned, cancelled or resumed some items are open, and nobody works on them.
    untouched = run["state"] in ("validating", "cancelling", "resuming")
    if not untouched and (run["state"] in rows.OPEN_STATES) != (actual["pending"] > 0):
        found.append(f"the run is {run['state']} with {actual['pending']} items open")
    return found


def _rest(run: RowMapping, first_ready: float | None) -> list[str]:
    # Too early costs one look, too late would leave ready items unseen.
    if run["idle_until"] is None or (first_ready is not None and run["idle_until"] <= first_ready):
        return []
    return [f"no item is looked for before {run['idle_until']}, but one is ready at {first_ready}"]
