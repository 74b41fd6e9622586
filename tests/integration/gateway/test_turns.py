"""Tenants take turns, however many runs they have, and so do the runs of a tenant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from counterpose_gateway.ledger import Ledger
from fakes.ledgers import create_run, done, lease, new_ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = new_ledger(tmp_path)
    yield opened
    opened.close()


def leases(ledger: Ledger, number: int) -> list[str]:
    """The runs of the next leases, each group of which is finished."""
    served = []
    for _ in range(number):
        group = lease(ledger)
        served.append(group.run_id)
        for item in group.items:
            ledger.items.finish(item.id, item.fence, done())
    return served


@pytest.mark.fault("T21")
@pytest.mark.parametrize("first", ["many", "one"])
def test_a_tenant_of_one_run_has_as_many_turns_as_one_of_fifty(ledger: Ledger, first: str) -> None:
    one = create_run(ledger.of("globex"), sources=10, per_source=1) if first == "one" else ""
    for _ in range(50):
        create_run(ledger.of("acme"), sources=4, per_source=1)
    one = one or create_run(ledger.of("globex"), sources=10, per_source=1)
    served = leases(ledger, 21)
    assert served.count(one) == 10
    assert ledger.runs.get(one).state == "completed"


def test_runs_that_a_tenant_adds_do_not_come_before_the_others(ledger: Ledger) -> None:
    one = create_run(ledger.of("globex"), sources=10, per_source=1)
    served = []
    for _ in range(24):
        create_run(ledger.of("acme"), sources=2, per_source=1)
        served += leases(ledger, 1)
    assert served.count(one) == 10


def test_the_runs_of_a_tenant_are_served_in_turn_and_a_new_one_after_a_round(ledger: Ledger) -> None:
    runs = [create_run(ledger, sources=6, per_source=1) for _ in range(3)]
    assert leases(ledger, 6) == runs * 2
    runs.append(create_run(ledger, sources=6, per_source=1))
    assert leases(ledger, 8) == runs * 2


def test_who_comes_late_or_was_idle_does_not_make_up_for_it(ledger: Ledger) -> None:
    idle = create_run(ledger.of("globex"), sources=30, per_source=1)
    leases(ledger, 1)
    with ledger._session.database.writing() as connection:
        connection.execute(text("UPDATE runs SET idle_until = 1e12 WHERE id = :run"), {"run": idle})
    create_run(ledger.of("acme"), sources=60, per_source=1)
    leases(ledger, 20)
    with ledger._session.database.writing() as connection:
        connection.execute(text("UPDATE runs SET idle_until = NULL"))
    late = create_run(ledger.of("initech"), sources=30, per_source=1)
    served = Counter(leases(ledger, 30))
    # One turn at once, and then as many as everybody.
    assert served[idle] in (10, 11)
    assert served[late] in (10, 11)


def test_runs_of_an_older_ledger_begin_at_one_place(ledger: Ledger) -> None:
    going_on = create_run(ledger.of("acme"), sources=9, per_source=1)
    ledger.roll_back("0102")
    with ledger._session.database.writing() as connection:
        # Before, it was the time of the last lease; a run that had none was at 0.
        connection.execute(text("UPDATE runs SET served_at = 1.7e9"))
        rows = connection.execute(text("SELECT count(*) FROM runs")).scalar_one()
    assert rows == 1
    ledger._session.database.migrate()
    new = [create_run(ledger.of("globex"), sources=9, per_source=1) for _ in range(2)]
    served = Counter(leases(ledger, 12))
    assert served[going_on] in (5, 6, 7)
    assert served[new[0]] + served[new[1]] == 12 - served[going_on]
    with ledger._session.database.reading() as connection:
        assert connection.execute(text("SELECT max(served_at) FROM runs")).scalar_one() < 100


def test_a_place_is_found_by_the_index_of_its_tenant(ledger: Ledger) -> None:
    create_run(ledger)
    with ledger._session.database.reading() as connection:
        plan = connection.execute(
            text(
                "EXPLAIN QUERY PLAN SELECT served_at FROM runs WHERE state IN ('queued', 'in_progress') AND "
                "idle_until IS NULL AND tenant = 'acme' AND id != 'x' ORDER BY served_at DESC LIMIT 1"
            )
        ).all()
    assert "runs_to_serve_of_tenant" in str(plan)
    assert "TEMP B-TREE" not in str(plan)
