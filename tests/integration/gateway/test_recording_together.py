"""Outcomes that end together are recorded in one transaction, each under the fence of its own lease."""

from __future__ import annotations

import pytest
from sqlalchemy import event

from counterpose_core.contract.runs import Item
from counterpose_core.errors import LeaseLost
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.records.outcomes import Ended, Failed, Filtered, Outcome
from fakes.ledger_audit import violated, violated_totals
from fakes.ledgers import Clock, create_run, done, lease

BUSY = Failed(code="backend-unavailable", detail="busy", retryable=True)
BROKEN = Failed(code="image-undecodable", detail="broken")


def ended(item: LeasedItem, outcome: Outcome) -> Ended:
    return Ended(item_id=item.id, fence=item.fence, outcome=outcome)


def test_outcomes_of_a_group_take_one_transaction_and_an_event_each(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=1, per_source=4)
    items = lease(ledger).items
    commits: list[object] = []
    event.listen(ledger._session.database.engine, "commit", commits.append)
    outcomes: list[Outcome] = [done(), Filtered(reason="no-edit"), BROKEN, BUSY]
    ledger.items.finish_many([ended(item, each) for item, each in zip(items, outcomes, strict=True)])
    assert len(commits) == 1
    events = ledger.events.page(run_id, after=0)[-4:]
    assert [each.message for each in events] == [
        "object edit of sled: done", "object edit of sled: filtered (no-edit)",
        "object edit of sled: failed (image-undecodable)",
        "object edit of sled: pending (backend-unavailable)",
    ]  # fmt: skip
    assert [each.request_counts.pending for each in events] == [3, 2, 1, 1]
    assert {each.state for each in events} == {"in_progress"}
    assert (violated(ledger, run_id), violated_totals(ledger)) == ([], [])


def test_the_last_outcomes_end_the_run_in_the_last_event_alone(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=1, per_source=3)
    ledger.items.finish_many([ended(item, done()) for item in lease(ledger).items])
    assert [each.state for each in ledger.events.page(run_id, after=0)[-3:]] == [
        "in_progress", "in_progress", "completed",
    ]  # fmt: skip
    assert ledger.measurements.active_runs() == 0


@pytest.mark.fault("F6", "F14")
def test_of_outcomes_together_those_under_a_lost_lease_are_refused_and_the_others_kept(
    ledger: Ledger, clock: Clock
) -> None:
    run_id = create_run(ledger, sources=1, per_source=3)
    first, second, third = lease(ledger).items
    ledger.items.finish(first.id, first.fence, done("b" * 64))
    stale = Ended(item_id=second.id, fence=second.fence - 1, outcome=done())
    with pytest.raises(LeaseLost, match=rf"1 of item '{first.id}', 0 of item '{second.id}'"):
        ledger.items.finish_many([ended(first, done()), stale, ended(third, done())])
    found = ledger.items.page(run_id, Item).items
    assert [item.state for item in found] == ["done", "leased", "done"]
    assert found[0].result is not None
    assert found[0].result.image == "b" * 64
    assert violated(ledger, run_id) == []


def test_nothing_that_ended_changes_nothing(ledger: Ledger) -> None:
    ledger.items.finish_many([])
    assert ledger.measurements.active_runs() == 0


def test_an_item_named_twice_is_recorded_once(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=1, per_source=2)
    item = lease(ledger).items[0]
    with pytest.raises(LeaseLost):
        ledger.items.finish_many([ended(item, done()), ended(item, BROKEN)])
    assert violated(ledger, run_id) == []
