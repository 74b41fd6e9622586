"""What a worker's hands want at the same time is one transaction, and each hand is told of its own items."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from counterpose_core.errors import InternalError, LeaseLost
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.items import outcomes
from counterpose_gateway.ledger.items.items import Items
from counterpose_gateway.ledger.runs.runs import Runs
from counterpose_gateway.records.items import LeasedGroup
from counterpose_gateway.records.outcomes import Ended
from counterpose_gateway.runs import renewal
from counterpose_gateway.worker import shared_ledger
from counterpose_gateway.worker.shared_ledger import SharedLedger
from fakes.ledger_audit import violated, violated_totals
from fakes.ledgers import Clock, create_run, done


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the ledger was called, by method."""
    calls: Counter[str] = Counter()

    def count(part: type, name: str) -> None:
        method: Callable[..., Any] = getattr(part, name)

        def noted(*given: Any, **named: Any) -> Any:
            calls[name] += 1
            return method(*given, **named)

        monkeypatch.setattr(part, name, noted)

    for name in ("lease_many", "record_many", "renew_many"):
        count(Items, name)
    count(Runs, "cancelled")
    return calls


def ended(group: LeasedGroup) -> list[Ended]:
    return [Ended(item_id=item.id, fence=item.fence, outcome=done()) for item in group.items]


async def leased(shared: SharedLedger, hands: int) -> list[LeasedGroup]:
    found = await asyncio.gather(*(shared.lease() for _ in range(hands)))
    return [group for group in found if group is not None]


async def test_hands_lease_different_groups_in_one_transaction(ledger: Ledger, counted: Counter[str]) -> None:
    run_id = create_run(ledger, sources=5, per_source=3)
    groups = await leased(SharedLedger(ledger, "worker", 30.0), 8)
    assert sorted(group.item_group for group in groups) == [f"source-{number}" for number in range(5)]
    assert [len(group.items) for group in groups] == [3] * 5
    assert counted["lease_many"] == 1
    assert violated(ledger, run_id) == []


async def test_several_groups_are_of_the_run_that_was_served_longest_ago(
    ledger: Ledger, clock: Clock
) -> None:
    first = create_run(ledger, sources=3, per_source=1)
    clock.now += 1
    second = create_run(ledger, sources=3, per_source=1)
    taken = [ledger.items.lease_many("worker", seconds=30, most=2) for _ in range(4)]
    assert [[group.run_id for group in groups] for groups in taken] == [
        [first] * 2,
        [second] * 2,
        [first],
        [second],
    ]


async def test_hands_record_together_and_only_the_owner_of_a_lost_lease_is_told(
    ledger: Ledger, clock: Clock, counted: Counter[str]
) -> None:
    run_id, shared = create_run(ledger, sources=5, per_source=2), SharedLedger(ledger, "worker", 30.0)
    groups = await leased(shared, 5)
    clock.now += 31
    taken = ledger.items.lease("another", seconds=30)
    assert taken is not None
    told = await asyncio.gather(*(shared.record(ended(each)) for each in groups), return_exceptions=True)
    lost = [group.item_group for group, error in zip(groups, told, strict=True) if error is not None]
    assert lost == [taken.item_group]
    assert [type(error) for error in told if error is not None] == [LeaseLost]
    assert counted["record_many"] == 1
    ledger.items.finish_many(ended(taken))
    assert ledger.runs.get(run_id).request_counts.done == 10
    assert violated(ledger, run_id) == []
    assert violated_totals(ledger) == []


async def test_an_outcome_that_cannot_be_kept_keeps_no_other_hand_from_recording(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, shared = create_run(ledger, sources=4, per_source=1), SharedLedger(ledger, "worker", 30.0)
    groups, conclusion = await leased(shared, 4), outcomes._conclusion

    def refused(item: Any, *given: Any) -> Any:
        if item["ordinal"] == 2:
            raise InternalError("too many words")
        return conclusion(item, *given)

    monkeypatch.setattr(outcomes, "_conclusion", refused)
    told = await asyncio.gather(*(shared.record(ended(each)) for each in groups), return_exceptions=True)
    assert Counter(type(error) for error in told) == {type(None): 3, InternalError: 1}
    assert ledger.runs.get(run_id).request_counts.done == 3
    assert violated(ledger, run_id) == []


async def test_one_renewal_serves_all_groups_of_a_run_that_the_worker_holds(
    ledger: Ledger, clock: Clock, counted: Counter[str]
) -> None:
    create_run(ledger, sources=3, per_source=2)
    shared = SharedLedger(ledger, "worker", 30.0)
    groups = await leased(shared, 3)
    with shared.holding(groups[0]), shared.holding(groups[1]), shared.holding(groups[2]):
        clock.now += 20
        for group in groups:
            await shared.renew(group, 30.0)
        assert counted["renew_many"] == 1
        clock.now += 20
        assert ledger.items.lease("another", seconds=30) is None


async def test_a_group_without_a_lease_is_told_so_when_another_group_renews(
    ledger: Ledger, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_run(ledger, sources=2, per_source=2)
    shared = SharedLedger(ledger, "worker", 30.0)
    first, second = await leased(shared, 2)
    clock.now += 31
    taken = ledger.items.lease("another", seconds=30)
    assert taken is not None
    kept, lost = (first, second) if taken.item_group == second.item_group else (second, first)
    with shared.holding(kept), shared.holding(lost):
        await shared.renew(kept, 30.0)
        with pytest.raises(LeaseLost, match=lost.item_group):
            await shared.renew(lost, 30.0)
    monkeypatch.setattr(renewal, "RENEW_AT_MOST_SECONDS", 0.0)
    with pytest.raises(LeaseLost):
        await shared.renew(lost, 30.0)


async def test_whether_a_run_is_cancelled_is_asked_once_a_second(
    ledger: Ledger, counted: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, shared = create_run(ledger), SharedLedger(ledger, "worker", 30.0)
    assert await asyncio.gather(*(shared.cancelled(run_id) for _ in range(5))) == [False] * 5
    ledger.runs.cancel(run_id)
    assert await shared.cancelled(run_id) is False
    assert counted["cancelled"] <= 2
    monkeypatch.setattr(shared_ledger, "CANCEL_SECONDS", 0.0)
    assert await shared.cancelled(run_id) is True


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_named_items_are_found_by_their_ids_before_the_server_has_seen_the_items(ledger: Ledger) -> None:
    create_run(ledger, sources=250, per_source=8)
    group = ledger.items.lease("worker", seconds=30)
    assert group is not None
    asked = outcomes._LEASED.params(ids=[item.id for item in group.items])
    engine = ledger._session.database.engine
    statement = str(asked.compile(engine, compile_kwargs={"literal_binds": True}))
    with engine.connect() as connection:
        plan = "\n".join(connection.execute(text(f"EXPLAIN {statement}")).scalars())
    assert "items_pkey" in plan
    assert "items_ready" not in plan
