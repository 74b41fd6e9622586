"""Leases: one owner at a time, one outcome per item, and nothing lost when owners vanish."""

from __future__ import annotations

import pytest

from counterpose_core.contract.runs import Item, ItemResult
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.errors import LeaseLost
from counterpose_core.types import Cost
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.items import MAX_ATTEMPTS
from counterpose_gateway.records.outcomes import Done, Failed, Filtered
from fakes.ledger_audit import violated
from fakes.ledgers import IMAGE, Clock, create_run, done, finish_all, lease


def test_a_lease_has_all_items_of_a_source_and_the_run_s_configuration(ledger: Ledger) -> None:
    run_id = create_run(ledger)
    group = lease(ledger)
    assert (group.run_id, group.item_group) == (run_id, "source-0")
    assert [item.ordinal for item in group.items] == [0, 1, 2]
    assert [item.attempt for item in group.items] == [1, 1, 1]
    assert group.kind == "stress-test"
    assert StressTestConfig.model_validate(group.config).request.classifiers == ["steady"]
    assert ledger.runs.get(run_id).state == "in_progress"


def test_leased_items_are_not_leased_again(ledger: Ledger) -> None:
    create_run(ledger)
    sources = [lease(ledger, worker=f"worker-{number}").item_group for number in range(3)]
    assert sources == ["source-0", "source-1", "source-2"]
    assert ledger.items.lease("late", seconds=30) is None


def test_a_lease_can_be_limited_to_one_run(ledger: Ledger) -> None:
    first, second = create_run(ledger), create_run(ledger)
    group = ledger.items.lease("worker", seconds=30, run_id=second)
    assert group is not None
    assert group.run_id == second
    assert ledger.runs.get(first).state == "queued"


def test_runs_take_turns_so_small_ones_do_not_wait_for_large_ones(ledger: Ledger, clock: Clock) -> None:
    large = create_run(ledger, sources=50, per_source=1)
    lease(ledger)
    clock.now += 1
    small = create_run(ledger, sources=2, per_source=1)
    turns = []
    for _ in range(4):
        clock.now += 1
        turns.append(lease(ledger).run_id)
    assert turns == [large, small, large, small]


def test_every_outcome_is_counted_and_the_last_one_ends_the_run(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=1, per_source=3)
    first, second, third = lease(ledger).items
    ledger.items.finish(first.id, first.fence, done())
    ledger.items.finish(second.id, second.fence, Filtered(reason="no-edit"))
    assert ledger.runs.get(run_id).state == "in_progress"
    ledger.items.finish(third.id, third.fence, Failed(code="image-undecodable", detail="'x' is broken"))
    run = ledger.runs.get(run_id)
    assert run.state == "completed_with_failures"
    assert run.ended_at is not None
    counts = run.request_counts
    assert (counts.done, counts.filtered, counts.failed, counts.pending) == (1, 1, 1, 0)
    items = ledger.items.page(run_id, Item).items
    assert [(item.state, item.reason, item.code) for item in items] == [
        ("done", None, None), ("filtered", "no-edit", None), ("failed", None, "image-undecodable"),
    ]  # fmt: skip
    assert violated(ledger, run_id) == []


def test_item_costs_are_counted_once_over_all_runs(ledger: Ledger) -> None:
    first = create_run(ledger, sources=1, per_source=3)
    create_run(ledger, sources=1, per_source=1)
    items = [item for _ in range(2) for item in lease(ledger).items]
    assert ledger.measurements.read().cost == Cost()
    large = Cost(unet_evaluations=5, flops=2**62 + 1, seconds=0.5)
    made = Done(result=ItemResult(image=IMAGE, caption="a sled", cost=large))
    ledger.items.finish(items[0].id, items[0].fence, made)
    with pytest.raises(LeaseLost):
        ledger.items.finish(items[0].id, items[0].fence, made)
    dropped = ItemResult(image=IMAGE, caption="a sled", cost=Cost(unet_evaluations=2, host_syncs=1))
    ledger.items.finish(items[1].id, items[1].fence, Filtered(reason="gate-direction", result=dropped))
    ledger.items.finish(items[2].id, items[2].fence, Failed(code="image-undecodable", detail="'x' is broken"))
    ledger.items.finish(items[3].id, items[3].fence, made)
    assert ledger.measurements.read().cost == Cost(
        unet_evaluations=12, host_syncs=1, flops=2**63 + 2, seconds=1.0
    )
    of_items = [item.result.cost for item in ledger.items.all(first) if item.result is not None]
    assert sum(of_items, Cost()) + large == ledger.measurements.read().cost


def test_a_run_without_failures_completes(ledger: Ledger) -> None:
    run_id = create_run(ledger)
    finish_all(ledger)
    assert ledger.runs.get(run_id).state == "completed"


def test_a_run_whose_items_all_failed_has_failed_with_a_reason(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=1, per_source=2)
    for item in lease(ledger).items:
        ledger.items.finish(item.id, item.fence, Failed(code="image-undecodable", detail="'x' is broken"))
    run = ledger.runs.get(run_id)
    assert run.state == "failed"
    assert run.problem is not None
    assert run.problem.code == "image-undecodable"
    assert "'x' is broken" in run.problem.detail


@pytest.mark.fault("F21")
def test_a_second_outcome_of_an_item_is_refused(ledger: Ledger) -> None:
    run_id = create_run(ledger)
    item = lease(ledger).items[0]
    ledger.items.finish(item.id, item.fence, done())
    with pytest.raises(LeaseLost, match=item.id):
        ledger.items.finish(item.id, item.fence, Filtered(reason="no-edit"))
    assert ledger.items.page(run_id, Item).items[0].state == "done"


@pytest.mark.fault("F6")
def test_an_expired_lease_passes_on_and_its_old_owner_writes_nothing(ledger: Ledger, clock: Clock) -> None:
    run_id = create_run(ledger, sources=1)
    zombie = lease(ledger, worker="zombie", seconds=30).items[0]
    clock.now += 31
    heir = lease(ledger, worker="heir").items[0]
    assert heir.id == zombie.id
    assert heir.fence > zombie.fence
    assert heir.attempt == 2
    with pytest.raises(LeaseLost):
        ledger.items.finish(zombie.id, zombie.fence, done("b" * 64))
    ledger.items.finish(heir.id, heir.fence, done())
    result = ledger.items.page(run_id, Item).items[0].result
    assert result is not None
    assert result.image == "a" * 64


def test_a_renewed_lease_does_not_expire(ledger: Ledger, clock: Clock) -> None:
    create_run(ledger, sources=1)
    group = lease(ledger, seconds=30)
    clock.now += 20
    assert ledger.items.renew(group, 30) == [item.id for item in group.items]
    clock.now += 20
    assert ledger.items.lease("other", seconds=30) is None


def test_renewing_returns_the_items_still_held_or_fails(ledger: Ledger) -> None:
    create_run(ledger, sources=1, per_source=2)
    group = lease(ledger)
    first, second = group.items
    ledger.items.finish(first.id, first.fence, done())
    assert ledger.items.renew(group, 30) == [second.id]
    ledger.items.finish(second.id, second.fence, done())
    with pytest.raises(LeaseLost, match="source-0"):
        ledger.items.renew(group, 30)


def test_a_retryable_failure_is_attempted_at_most_three_times(ledger: Ledger, clock: Clock) -> None:
    run_id = create_run(ledger, sources=1, per_source=1)
    down = Failed(code="backend-unavailable", detail="the editor is down", retryable=True)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        item = lease(ledger).items[0]
        assert item.attempt == attempt
        ledger.items.finish(item.id, item.fence, down)
        assert ledger.items.lease("hasty", seconds=30) is None
        clock.now += 60
    failed = ledger.items.page(run_id, Item).items[0]
    assert (failed.state, failed.code, failed.attempts) == ("failed", "backend-unavailable", 3)


def test_an_item_that_finally_succeeds_keeps_no_failure(ledger: Ledger, clock: Clock) -> None:
    run_id = create_run(ledger, sources=1, per_source=1)
    item = lease(ledger).items[0]
    ledger.items.finish(item.id, item.fence, Failed(code="deadline-exceeded", detail="slow", retryable=True))
    clock.now += 60
    finish_all(ledger)
    kept = ledger.items.page(run_id, Item).items[0]
    assert (kept.state, kept.code, kept.detail, kept.attempts) == ("done", None, None, 2)


@pytest.mark.fault("F32")
def test_an_item_that_kills_its_workers_does_not_affect_others(ledger: Ledger, clock: Clock) -> None:
    """The poison is item 1 of three: a worker that leases it never returns."""
    run_id = create_run(ledger, sources=1, per_source=3)
    for _ in range(10):
        group = ledger.items.lease("victim", seconds=30)
        if group is None:
            break
        poisoned = any(item.ordinal == 1 for item in group.items)
        for item in [] if poisoned else group.items:
            ledger.items.finish(item.id, item.fence, done())
        clock.now += 31
    states = {item.ordinal: (item.state, item.code) for item in ledger.items.page(run_id, Item).items}
    assert states == {0: ("done", None), 1: ("failed", "lease-lost"), 2: ("done", None)}
    assert ledger.runs.get(run_id).state == "completed_with_failures"
    assert violated(ledger, run_id) == []


def test_a_released_item_costs_no_attempt(ledger: Ledger) -> None:
    run_id = create_run(ledger, sources=1, per_source=2)
    group = lease(ledger)
    first = group.items[0]
    ledger.items.finish(first.id, first.fence, done())
    ledger.items.release(group)
    again = lease(ledger, worker="next")
    assert [(item.ordinal, item.attempt) for item in again.items] == [(1, 1)]
    assert violated(ledger, run_id) == []


def test_releasing_a_lost_lease_does_not_affect_the_next_owner(ledger: Ledger, clock: Clock) -> None:
    create_run(ledger, sources=1)
    late = lease(ledger)
    clock.now += 31
    heir = lease(ledger, worker="heir")
    ledger.items.release(late)
    assert ledger.items.renew(heir, 30) == [item.id for item in heir.items]


def test_items_of_a_cancelled_run_are_not_leased(ledger: Ledger) -> None:
    run_id = create_run(ledger)
    ledger.runs.cancel(run_id)
    assert ledger.items.lease("worker", seconds=30) is None
