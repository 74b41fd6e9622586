"""Totals over all runs, kept in the transaction that changes a run: runs under way, open items, cost.

Counting them would read every run at each scrape of the metrics. The totals are divided over several rows by
the run's id, because a transaction holds its row until it is durable: with one row, writers of different runs
would wait for each other on PostgreSQL.
"""

from __future__ import annotations

import uuid
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, bindparam, insert, select, update

from counterpose_core.types import FINAL_RUN_STATES, Cost
from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.records.measurements import Attempt

SHARDS = 16
"""Rows that the totals are divided over."""

_tallies = schema.tallies.c
_MINE = _tallies.shard == bindparam("of_shard")
_COUNTERS = {
    "active_runs": _tallies.active_runs + bindparam("more"),
    "open_items": _tallies.open_items + bindparam("opened"),
}
_ADD = update(schema.tallies).where(_MINE).values(_COUNTERS)
_DOCUMENTS = select(_tallies.cost, _tallies.attempts).where(_MINE).with_for_update()
_SET = (
    update(schema.tallies)
    .where(_MINE)
    .values({**_COUNTERS, "cost": bindparam("spent"), "attempts": bindparam("came_to")})
)


def begin(connection: Connection) -> None:
    """Write the rows of a new ledger."""
    connection.execute(insert(schema.ledger_identity).values(id=uuid.uuid4().hex))
    connection.execute(
        insert(schema.tallies),
        [{"shard": shard, "active_runs": 0, "cost": {}, "attempts": {}} for shard in range(SHARDS)],
    )


def add(
    connection: Connection,
    run_id: str,
    *,
    active: int = 0,
    opened: int = 0,
    cost: Cost | None = None,
    attempts: Iterable[Attempt] = (),
) -> None:
    """Add what a transition of a run changes; the last lock that a transaction takes.

    Args:
        connection: a writing transaction.
        run_id: the run.
        active: 1 if the run begins or goes on again, -1 if it ends.
        opened: how many items are open that were not, below 0 if they ended.
        cost: the cost of the items recorded now.
        attempts: the attempts that ended now.
    """
    ended = list(attempts)
    numbers = {"of_shard": zlib.crc32(run_id.encode()) % SHARDS, "more": active, "opened": opened}
    if cost is None and not ended:
        if active or opened:
            connection.execute(_ADD, numbers)
        return
    # Read and written as JSON: counts of operations exceed the integers of both databases.
    known = connection.execute(_DOCUMENTS, numbers).one()
    spent = known.cost if cost is None else (Cost.model_validate(known.cost) + cost).model_dump()
    connection.execute(_SET, {**numbers, "spent": spent, "came_to": _with(known.attempts, ended)})


def _with(known: Mapping[str, Mapping[str, int]], ended: Iterable[Attempt]) -> dict[str, dict[str, int]]:
    counts = {kind: dict(outcomes) for kind, outcomes in known.items()}
    for (kind, outcome), number in Counter(ended).items():
        of_kind = counts.setdefault(kind, {})
        of_kind[outcome] = of_kind.get(outcome, 0) + number
    return counts


def change_of_state(before: str, after: str) -> int:
    """Return by how much a change of a run's state changes the number of runs that go on."""
    return (after not in FINAL_RUN_STATES) - (before not in FINAL_RUN_STATES)


def active_runs(connection: Connection) -> int:
    """Return how many runs have not ended."""
    return sum(connection.execute(select(_tallies.active_runs)).scalars())


def open_items(connection: Connection) -> int:
    """Return how many items of all runs have not ended."""
    return int(sum(connection.execute(select(_tallies.open_items)).scalars()))


def attempts(connection: Connection) -> Counter[Attempt]:
    """Return how many attempts at items came to what."""
    found = Counter[Attempt]()
    for document in connection.execute(select(_tallies.attempts)).scalars():
        for kind, outcomes in document.items():
            found.update({Attempt(kind, outcome): number for outcome, number in outcomes.items()})
    return found


def total_cost(connection: Connection) -> Cost:
    """Return what the recorded items of all runs cost, of deleted runs too."""
    costs = connection.execute(select(_tallies.cost)).scalars()
    return sum((Cost.model_validate(cost) for cost in costs), Cost())
