"""Finding work costs the same whatever the ledger holds, and runs with nothing ready are left alone."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.records.outcomes import Failed
from fakes.ledger_audit import violated
from fakes.ledgers import Clock, create_run, done, lease, new_ledger, statements

BUSY = Failed(code="backend-unavailable", detail="busy", retryable=True)


def idle_until(ledger: Ledger, run_id: str) -> float | None:
    """Until when no item of the run is looked for."""
    query = select(schema.runs.c.idle_until).where(schema.runs.c.id == run_id)
    with ledger._session.database.reading() as connection:
        found: float | None = connection.execute(query).scalar_one()
        return found


def test_every_step_of_a_lease_is_one_search_of_an_index(tmp_path: Any) -> None:
    """Nothing is sorted or read through: neither open items, nor items of other groups, nor runs."""
    ledger = new_ledger(tmp_path)
    create_run(ledger, sources=20)
    seen = statements(ledger)
    lease(ledger)
    ledger.stages.lease(["stress-test"], seconds=30)
    steps = [each for each in seen if each[0].startswith(("SELECT", "UPDATE"))]
    with ledger._session.database.reading() as connection:
        explained = [
            connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", given).all() for sql, given in steps
        ]
    plans = [row[3] for plan in explained for row in plan]
    # The first entry of an index that holds the runs to serve in their order.
    plans = [plan for plan in plans if plan != "SCAN runs USING INDEX runs_to_serve"]
    assert len(steps) > 5
    assert [plan for plan in plans if "SCAN" in plan or "TEMP B-TREE" in plan] == []
    assert any("items_ready" in plan for plan in plans)
    assert any("items_open_of_group (run_id=? AND item_group=?" in plan for plan in plans)
    assert any("runs_to_plan" in plan for plan in plans)
    ledger.close()


@pytest.mark.parametrize("runs", [1, 30])
def test_leased_runs_are_not_looked_at_before_their_leases_end(
    ledger: Ledger, clock: Clock, runs: int
) -> None:
    for _ in range(runs):
        create_run(ledger, sources=1)
        lease(ledger, seconds=30)
    seen = statements(ledger)
    assert ledger.items.lease("late", seconds=30) is None
    looks = len(seen)
    assert looks <= 4
    # SQLite has one lock, which idle workers must not take; on PostgreSQL nothing found is nothing locked.
    assert not ledger._session.database.is_sqlite or not any(
        sql.startswith("BEGIN IMMEDIATE") for sql, _ in seen
    )
    clock.now += 31
    assert lease(ledger).items[0].attempt == 2


def test_a_paused_item_is_found_when_its_pause_ends_before_the_run_s_leases(
    ledger: Ledger, clock: Clock
) -> None:
    run_id = create_run(ledger, sources=1, per_source=2)
    first, second = lease(ledger, seconds=600).items
    assert idle_until(ledger, run_id) == clock.now + 600
    ledger.items.finish(first.id, first.fence, BUSY)
    assert ledger.items.lease("hasty", seconds=30) is None
    clock.now += 10
    assert [item.id for item in lease(ledger).items] == [first.id]
    ledger.items.finish(second.id, second.fence, done())
    assert violated(ledger, run_id) == []


def test_a_released_group_is_found_at_once(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=1)
    ledger.items.release(lease(ledger, seconds=600))
    assert idle_until(ledger, run_id) is None
    assert lease(ledger).run_id == run_id


def test_a_renewed_lease_is_looked_at_once_and_then_left_alone(ledger: Ledger, clock: Clock) -> None:
    run_id = create_run(ledger, sources=1)
    group = lease(ledger, seconds=30)
    clock.now += 20
    ledger.items.renew(group, 30)
    clock.now += 20
    assert ledger.items.lease("early", seconds=30) is None
    assert idle_until(ledger, run_id) == clock.now + 10


def test_items_that_were_never_leased_come_before_retried_ones(ledger: Ledger, clock: Clock) -> None:
    create_run(ledger, sources=3, per_source=1)
    first = lease(ledger).items[0]
    ledger.items.finish(first.id, first.fence, BUSY)
    clock.now += 60
    assert [lease(ledger).items[0].ordinal for _ in range(3)] == [1, 2, 0]


def test_a_resumed_run_is_found_though_it_had_been_idle(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=1)
    lease(ledger, seconds=600)
    ledger.runs.cancel(run_id)
    assert idle_until(ledger, run_id) is None
    ledger.runs.resume(run_id)
    assert lease(ledger).run_id == run_id
    assert violated(ledger, run_id) == []


def test_the_audit_names_a_run_that_rests_too_long(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=1)
    with ledger._session.database.writing() as connection:
        connection.execute(schema.runs.update().values(idle_until=9e9))
    assert violated(ledger, run_id) == ["no item is looked for before 9000000000.0, but one is ready at 0.0"]
