"""Totals over all runs, kept in the transaction that changes a run: how many go on, and what all have cost.

Counting them would read every run at each scrape of the metrics. The totals are divided over several rows by
the run's id, because a transaction holds its row until it is durable: with one row, writers of different runs
would wait for each other on PostgreSQL.
"""

from __future__ import annotations

import zlib

from sqlalchemy import Connection, bindparam, select, update

from faultline_core.types import FINAL_RUN_STATES, Cost
from faultline_gateway.ledger import schema

SHARDS = 16
"""Rows that the totals are divided over; the migration that made the table wrote them."""

_tallies = schema.tallies.c
_MINE = _tallies.shard == bindparam("of_shard")
_ADD_ACTIVE = (
    update(schema.tallies).where(_MINE).values(active_runs=_tallies.active_runs + bindparam("more"))
)  # fmt: skip
_COST = select(_tallies.cost).where(_MINE).with_for_update()
_SET_COST = update(schema.tallies).where(_MINE).values(cost=bindparam("spent"))


def add(connection: Connection, run_id: str, *, active: int = 0, cost: Cost | None = None) -> None:
    """Add what a transition of a run changes; the last lock that a transaction takes.

    Args:
        connection: a writing transaction.
        run_id: the run.
        active: 1 if the run begins or goes on again, -1 if it ends.
        cost: the cost of the items recorded now.
    """
    if not active and cost is None:
        return
    mine = {"of_shard": zlib.crc32(run_id.encode()) % SHARDS}
    if active:
        connection.execute(_ADD_ACTIVE, {**mine, "more": active})
    if cost is not None:
        # Read and written as JSON: counts of operations exceed the integers of both databases.
        known = connection.execute(_COST, mine).scalar_one()
        connection.execute(_SET_COST, {**mine, "spent": (Cost.model_validate(known) + cost).model_dump()})


def change_of_state(before: str, after: str) -> int:
    """Return by how much a change of a run's state changes the number of runs that go on."""
    return (after not in FINAL_RUN_STATES) - (before not in FINAL_RUN_STATES)


def active_runs(connection: Connection) -> int:
    """Return how many runs have not ended."""
    return sum(connection.execute(select(_tallies.active_runs)).scalars())


def total_cost(connection: Connection) -> Cost:
    """Return what the recorded items of all runs cost, of deleted runs too."""
    costs = connection.execute(select(_tallies.cost)).scalars()
    return sum((Cost.model_validate(cost) for cost in costs), Cost())
