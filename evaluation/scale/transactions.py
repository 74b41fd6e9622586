"""What a lease and a record take of worker and database, by groups: measured alone on a ledger of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import event

from counterpose_core.contract.runs import ItemResult
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.items import LeasedGroup
from counterpose_gateway.records.outcomes import Done, Ended
from evaluation.load.bulk import load_run
from evaluation.load.fleet import A_SOURCE, server_seconds
from evaluation.scale.model import Affine, Transaction
from fakes.postgres import PostgresServer

SIZES = (1, 4, 16)
REPEATS = 60
WARMING = 5


@dataclass(frozen=True)
class Measured:
    """Seconds of one transaction of so many groups: on the clock, of the worker, of the database."""

    groups: int
    wall: float
    worker: float
    database: float
    statements: float


@dataclass(frozen=True)
class Transactions:
    """The two kinds of transaction, and what is left of their time: the commit and the waking of programs."""

    lease: Transaction
    record: Transaction
    commit: float


def transactions(server: PostgresServer, result: ItemResult, repeats: int = REPEATS) -> Transactions:
    """Measure leases and records of 1, 4 and 16 groups that nobody else waits for."""
    url = server.migrated_database()
    ledger = Ledger(url)
    load_run(ledger, url, sources=sum(SIZES) * (repeats + WARMING), per_source=A_SOURCE)
    executed = [0]
    engine = ledger._session.database.engine

    def count(*given: Any) -> None:
        executed[0] += 1

    event.listen(engine, "before_cursor_execute", count)
    leases, records = list[Measured](), list[Measured]()
    for size in SIZES:
        taken: list[list[LeasedGroup]] = []

        def lease(size: int = size, taken: list[list[LeasedGroup]] = taken) -> None:
            taken.append(ledger.items.lease_many("worker", seconds=6_000, most=size))

        def record(taken: list[list[LeasedGroup]] = taken) -> None:
            outcome = Done(result=result)
            ledger.items.finish_many(
                [
                    Ended(item_id=item.id, fence=item.fence, outcome=outcome)
                    for group in taken.pop()
                    for item in group.items
                ]
            )

        leases.append(_measured(server, lease, size, repeats, executed))
        records.append(_measured(server, record, size, repeats, executed))
    ledger.close()
    rest = [each.wall - each.worker - each.database for each in (*leases, *records)]
    return Transactions(_transaction(leases), _transaction(records), max(0.0, float(np.median(rest))))


def _measured(
    server: PostgresServer, call: Callable[[], None], groups: int, repeats: int, executed: list[int]
) -> Measured:
    for _ in range(WARMING):
        call()
    wall, worker, database = time.perf_counter(), time.process_time(), server_seconds(server)
    before = executed[0]
    for _ in range(repeats):
        call()
    return Measured(
        groups,
        (time.perf_counter() - wall) / repeats,
        (time.process_time() - worker) / repeats,
        (server_seconds(server) - database) / repeats,
        # And the commit.
        (executed[0] - before) / repeats + 1,
    )


def _transaction(measured: Sequence[Measured]) -> Transaction:
    groups = [each.groups for each in measured]
    return Transaction(
        _fitted(groups, [each.worker for each in measured]),
        _fitted(groups, [each.database for each in measured]),
        _fitted(groups, [each.statements for each in measured]),
    )


def _fitted(groups: Sequence[int], values: Sequence[float]) -> Affine:
    each, fixed = np.polyfit(groups, values, 1)
    # One group must not cost less than nothing, whatever the line says.
    return Affine(max(0.0, float(fixed)), max(0.0, float(each)))
