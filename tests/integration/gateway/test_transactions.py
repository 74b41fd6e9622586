"""How many transactions a submission, a lease and an outcome take: what spans several nouns is one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, event

from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.outcomes import Ended
from fakes.gateway import fake_gateway
from fakes.ledgers import create_run, done, lease

BODY = {"dataset": "demo", "classifiers": ["steady"], "seed": 1}


def transactions(ledger: Ledger) -> Callable[[], tuple[int, int]]:
    """Count transactions; the function returns the reading and the writing ones since its last call."""
    begun: list[bool] = []

    def note(connection: Connection) -> None:
        begun.append(connection.get_execution_options().get("counterpose_read_only", False))

    def since() -> tuple[int, int]:
        counted = sum(begun), len(begun) - sum(begun)
        begun.clear()
        return counted

    event.listen(ledger._session.database.engine, "begin", note)
    return since


@pytest.mark.parametrize(("key", "first", "again"), [(None, (4, 1), (4, 1)), ("once", (5, 1), (3, 0))])
async def test_a_submission_writes_once(
    tmp_path: Path, key: str | None, first: tuple[int, int], again: tuple[int, int]
) -> None:
    async with fake_gateway(tmp_path) as gateway:
        await gateway.upload("demo", 2)
        # The digest of a dataset that changed is made when it is first asked for.
        await gateway.http.get("/v1/datasets/demo")
        since = transactions(gateway.ledger)
        headers = {} if key is None else {"Idempotency-Key": key}
        for expected in (first, again):
            answer = await gateway.http.post("/v1/stress-tests", json=BODY, headers=headers)
            assert (answer.status_code, since()) == (202, expected)


def test_a_run_with_its_items_event_and_totals_is_one_transaction(ledger: Ledger) -> None:
    since = transactions(ledger)
    create_run(ledger, key="once")
    assert since() == (0, 1)
    create_run(ledger, key="once")
    assert since() == (2, 1)


def test_a_lease_is_one_transaction_behind_a_look_that_locks_nothing(ledger: Ledger) -> None:
    run_id = create_run(ledger)
    looks = 1 if ledger._session.database.is_sqlite else 0
    since = transactions(ledger)
    group = lease(ledger)
    assert since() == (looks, 1)
    assert ledger.items.lease("worker", seconds=30.0, run_id=run_id)
    assert since() == (1, 1)
    ledger.items.renew_many([group], 30.0)
    assert since() == (0, 1)
    ledger.items.release(group)
    assert since() == (0, 1)


def test_outcomes_with_counters_events_and_the_end_of_the_run_are_one_transaction(ledger: Ledger) -> None:
    create_run(ledger, sources=1)
    group = lease(ledger)
    since = transactions(ledger)
    first, *others = group.items
    ledger.items.finish(first.id, first.fence, done())
    assert since() == (0, 1)
    ledger.items.record_many([Ended(item_id=item.id, fence=item.fence, outcome=done()) for item in others])
    assert since() == (0, 1)
    assert ledger.measurements.active_runs() == 0


def test_a_run_is_cancelled_and_resumed_in_two_transactions_and_a_look(ledger: Ledger) -> None:
    run_id = create_run(ledger)
    since = transactions(ledger)
    ledger.runs.cancel(run_id)
    assert since() == (1, 2)
    ledger.runs.resume(run_id)
    assert since() == (1, 2)
