"""Runs in stages: what a reader sees between stages, and how such runs are cancelled and resumed."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from counterpose_core.contract.runs import Item
from counterpose_core.errors import NotFound, RunNotCancellable, RunNotResumable
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.database.engine import Database
from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.progress.following import FollowedRuns, event_stream
from counterpose_gateway.records.items import LeasedStage
from counterpose_gateway.records.outcomes import Failed
from fakes.following import sent_fields, waited_for
from fakes.ledger_audit import violated
from fakes.ledgers import Clock, config, create_run, done, finish_all, lease
from fakes.staged_runs import KIND, FourStages, create_staged_run, items_of_stage, plan_one, stored_keys


def leased_stage(ledger: Ledger) -> LeasedStage:
    """Lease the planning of the waiting stage; there must be one."""
    leased = ledger.stages.lease([KIND], seconds=30.0)
    assert leased is not None
    return leased


async def work_off(ledger: Ledger, method: FourStages) -> None:
    """Finish items and plan stages until nothing is left to do."""
    finish_all(ledger)
    while await plan_one(ledger, method):
        finish_all(ledger)


async def test_a_staged_run_continues_until_no_stage_follows(ledger: Ledger, url: str) -> None:
    run_id, method = create_staged_run(ledger), FourStages(many=2)
    await work_off(ledger, method)
    assert ledger.runs.get(run_id).state == "completed"
    assert [item.stage for item in ledger.items.all(run_id)] == [1] * 4 + [2] * 4 + [4] * 2
    assert [item.ordinal for item in ledger.items.all(run_id)] == list(range(10))
    assert [key for stage, key in stored_keys(url, run_id) if stage == 4] == ["many-0", "many-1"]
    assert method.asked == [2, 3, 4, 5]
    assert violated(ledger, run_id) == []


async def test_every_stage_change_leaves_an_event_with_counts_that_add_up(ledger: Ledger) -> None:
    run_id = create_staged_run(ledger, sources=1, per_source=1)
    await work_off(ledger, FourStages(many=1))
    told = [(event.state, event.request_counts.total) for event in ledger.events.page(run_id, after=0)]
    assert told == [
        ("queued", 1), ("in_progress", 1), ("finalizing", 1),
        ("in_progress", 2), ("finalizing", 2),
        ("finalizing", 2),
        ("in_progress", 3), ("finalizing", 3),
        ("completed", 3),
    ]  # fmt: skip


def test_a_run_without_stages_ends_with_its_last_item(ledger: Ledger) -> None:
    run_id = create_run(ledger)
    finish_all(ledger)
    assert ledger.runs.get(run_id).state == "completed"
    assert "finalizing" not in {event.state for event in ledger.events.page(run_id, after=0)}
    assert ledger.stages.lease([KIND], seconds=30.0) is None


def test_a_run_with_an_empty_first_stage_waits_for_the_second(ledger: Ledger) -> None:
    run_id = create_staged_run(ledger, sources=0)
    assert ledger.runs.get(run_id).state == "finalizing"
    leased = leased_stage(ledger)
    ledger.stages.store(leased, list(items_of_stage(["a"])))
    ledger.stages.open(leased, 1)
    assert ledger.runs.get(run_id).state == "queued"
    assert ledger.runs.get(run_id).stage == 2
    assert violated(ledger, run_id) == []


def test_stored_items_are_not_leased_before_their_stage_opens(ledger: Ledger, url: str) -> None:
    run_id = create_staged_run(ledger)
    finish_all(ledger)
    leased = leased_stage(ledger)
    ledger.stages.store(leased, list(items_of_stage(["a", "b"])))
    assert len(stored_keys(url, run_id)) == 6
    assert ledger.runs.get(run_id).request_counts.total == 4
    assert len(ledger.items.page(run_id, Item).items) == 4
    assert ledger.items.lease("worker", seconds=30.0) is None
    assert violated(ledger, run_id) == []
    ledger.stages.open(leased, 2)
    assert ledger.runs.get(run_id).request_counts.total == 6
    assert len(ledger.items.page(run_id, Item).items) == 6
    assert [item.ordinal for item in lease(ledger).items] == [4, 5]
    assert violated(ledger, run_id) == []


def test_a_finalizing_run_is_active_and_leased_only_for_its_kind(ledger: Ledger) -> None:
    create_staged_run(ledger)
    finish_all(ledger)
    assert ledger.measurements.active_runs() == 1
    assert ledger.stages.lease(["shift-benchmark"], seconds=30.0) is None


def test_the_longest_waiting_run_is_planned_first(ledger: Ledger, clock: Clock) -> None:
    runs = []
    for _ in range(3):
        clock.now += 1
        runs.append(create_staged_run(ledger))
    finish_all(ledger)
    assert [leased_stage(ledger).run_id for _ in runs] == runs


async def test_a_run_cancelled_between_stages_is_planned_again_on_resume(ledger: Ledger, url: str) -> None:
    run_id = create_staged_run(ledger)
    finish_all(ledger)
    ledger.stages.store(leased_stage(ledger), list(items_of_stage(["half", "a plan"])))
    run = ledger.runs.cancel(run_id)
    assert (run.state, run.request_counts.done, run.request_counts.cancelled) == ("cancelled", 4, 0)
    assert run.ended_at is not None
    assert violated(ledger, run_id) == []
    with pytest.raises(RunNotCancellable, match="already cancelled"):
        ledger.runs.cancel(run_id)
    assert ledger.runs.resume(run_id).state == "finalizing"
    await work_off(ledger, FourStages(many=1))
    assert ledger.runs.get(run_id).state == "completed"
    assert [key for _, key in stored_keys(url, run_id)][4:] == [
        "confirm-0", "confirm-1", "confirm-2", "confirm-3", "many-0",
    ]  # fmt: skip


async def test_items_of_a_dead_planner_are_not_leased_after_a_resume(ledger: Ledger, url: str) -> None:
    run_id = create_staged_run(ledger, sources=1, per_source=2)
    first, second = lease(ledger).items
    ledger.items.finish(first.id, first.fence, done())
    ledger.items.finish(second.id, second.fence, Failed(code="image-undecodable", detail="broken"))
    ledger.stages.store(leased_stage(ledger), list(items_of_stage(["confirm-0"])))
    ledger.runs.cancel(run_id)
    run = ledger.runs.resume(run_id)
    assert (run.state, run.request_counts.pending, run.request_counts.total) == ("queued", 1, 2)
    assert [item.ordinal for item in lease(ledger).items] == [1]
    assert ledger.items.lease("another", seconds=30.0) is None
    assert ledger.runs.cancel(run_id).request_counts.cancelled == 1
    ledger.runs.resume(run_id)
    await work_off(ledger, FourStages(many=1))
    assert ledger.runs.get(run_id).request_counts.done == 5
    assert [key for stage, key in stored_keys(url, run_id) if stage == 2] == ["confirm-0", "confirm-1"]
    assert violated(ledger, run_id) == []


async def test_resuming_repeats_failed_items_without_planning_a_stage_twice(ledger: Ledger, url: str) -> None:
    run_id, method = create_staged_run(ledger, sources=1, per_source=2), FourStages(many=1)
    finish_all(ledger)
    await plan_one(ledger, method)
    first, second = lease(ledger).items
    ledger.items.finish(first.id, first.fence, Failed(code="image-undecodable", detail="broken"))
    ledger.items.finish(second.id, second.fence, done())
    await work_off(ledger, method)
    assert ledger.runs.get(run_id).state == "completed_with_failures"
    stored = stored_keys(url, run_id)
    assert ledger.runs.resume(run_id).state == "queued"
    await work_off(ledger, method)
    assert ledger.runs.get(run_id).state == "completed"
    assert stored_keys(url, run_id) == stored
    assert method.asked == [2, 3, 4, 5, 5]
    with pytest.raises(RunNotResumable, match="completed"):
        ledger.runs.resume(run_id)


async def test_a_staged_run_cancelled_during_work_ends_at_once(ledger: Ledger) -> None:
    run_id = create_staged_run(ledger)
    finish_all(ledger)
    await plan_one(ledger, FourStages())
    run = ledger.runs.cancel(run_id)
    assert (run.state, run.request_counts.cancelled) == ("cancelled", 4)
    assert ledger.stages.lease([KIND], seconds=30.0) is None


async def test_streams_and_waits_continue_between_stages(ledger: Ledger) -> None:
    run_id = create_staged_run(ledger, sources=1, per_source=1)
    stream = event_stream(FollowedRuns(ledger.events), run_id, after=0)
    finish_all(ledger)
    assert (await waited_for(ledger, run_id, 0.0)).state == "finalizing"
    # The newest event alone is in memory; the ones before it are read.
    seen = [each["data"] for each in sent_fields(await anext(stream))]
    assert '"finalizing"' in seen[-1]
    await work_off(ledger, FourStages(many=1))
    rest = [each["data"] async for sent in stream for each in sent_fields(sent)]
    assert '"completed"' in rest[-1]
    assert (await waited_for(ledger, run_id, 0.0)).state == "completed"


def continued(ledger: Ledger, parent: str) -> str:
    return ledger.runs.create(
        kind=KIND, dataset="demo", config=config(), items=[], fingerprint="f" * 64, parent=parent
    ).id


def test_a_continuing_run_names_its_ended_parent(ledger: Ledger) -> None:
    parent = create_run(ledger)
    finish_all(ledger)
    assert ledger.runs.get(continued(ledger, parent)).parent == parent
    assert ledger.runs.get(parent).parent is None
    with pytest.raises(NotFound, match="'nobody'"):
        continued(ledger, "nobody")


def test_the_audit_finds_a_total_increased_before_its_stage_opened(ledger: Ledger, url: str) -> None:
    run_id = create_staged_run(ledger)
    finish_all(ledger)
    ledger.stages.store(leased_stage(ledger), list(items_of_stage(["a", "b"])))
    database = Database(url)
    with database.writing() as connection:
        connection.execute(update(schema.runs).values(total=6, pending=2))
    database.close()
    found = " ".join(violated(ledger, run_id))
    assert "4 items for a total of 6" in found
