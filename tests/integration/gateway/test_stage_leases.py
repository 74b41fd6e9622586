"""The lease of a stage: one planner at a time, zombies write nothing, and failures end with a code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from counterpose_core.contract.runs import Run, RunItem
from counterpose_core.errors import BackendUnavailable, InternalError, LeaseLost, QuotaExceeded
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.runs.stages import Stages
from counterpose_gateway.records.items import MAX_ATTEMPTS, LeasedStage
from counterpose_gateway.records.pace import CHUNK
from counterpose_gateway.runs import renewal
from counterpose_gateway.runs.stages import StagePlan
from fakes.ledger_audit import violated
from fakes.ledgers import Clock, finish_all
from fakes.staged_runs import (
    KIND,
    FourStages,
    create_staged_run,
    items_of_stage,
    plan_one,
    planner,
    stored_keys,
)

LEASE_SECONDS = 30.0
VERBS: dict[str, Callable[[Ledger, LeasedStage], object]] = {
    "renew": lambda ledger, leased: ledger.stages.renew(leased, LEASE_SECONDS),
    "clear": lambda ledger, leased: ledger.stages.clear(leased),
    "store": lambda ledger, leased: ledger.stages.store(leased, list(items_of_stage(["zombie"]))),
    "open": lambda ledger, leased: ledger.stages.open(leased, 0),
    "end": lambda ledger, leased: ledger.stages.end(leased),
    "fail": lambda ledger, leased: ledger.stages.fail(leased, InternalError("a defect")),
    "release": lambda ledger, leased: ledger.stages.release(leased),
}


@pytest.fixture
def run_id(ledger: Ledger) -> str:
    """A run of four items that waits for its second stage."""
    created = create_staged_run(ledger)
    finish_all(ledger)
    return created


def leased_stage(ledger: Ledger) -> LeasedStage:
    leased = ledger.stages.lease([KIND], seconds=LEASE_SECONDS)
    assert leased is not None
    return leased


def expire(ledger: Ledger, clock: Clock, leased: LeasedStage) -> None:
    clock.now += LEASE_SECONDS + 1
    leased_stage(ledger)


def cancel(ledger: Ledger, clock: Clock, leased: LeasedStage) -> None:
    ledger.runs.cancel(leased.run_id)


def cancel_and_resume(ledger: Ledger, clock: Clock, leased: LeasedStage) -> None:
    ledger.runs.cancel(leased.run_id)
    ledger.runs.resume(leased.run_id)


def open_empty(ledger: Ledger, clock: Clock, leased: LeasedStage) -> None:
    ledger.stages.open(leased, 0)


def release(ledger: Ledger, clock: Clock, leased: LeasedStage) -> None:
    ledger.stages.release(leased)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "lose", [expire, cancel, cancel_and_resume, open_empty, release], ids=lambda lose: lose.__name__
)
def test_a_planner_that_lost_its_lease_writes_nothing(
    ledger: Ledger, clock: Clock, url: str, run_id: str, lose: Callable[..., None], verb: str
) -> None:
    leased = leased_stage(ledger)
    lose(ledger, clock, leased)
    run, events, stored = (
        ledger.runs.get(run_id),
        ledger.events.page(run_id, after=0),
        stored_keys(url, run_id),
    )
    assert not ledger.stages.is_ours(leased)
    with pytest.raises(LeaseLost, match=f"stage 2 of run '{run_id}'"):
        VERBS[verb](ledger, leased)
    assert ledger.runs.get(run_id) == run
    assert ledger.events.page(run_id, after=0) == events
    assert stored_keys(url, run_id) == stored


def test_a_zombie_cannot_delete_or_open_its_successor_s_items(
    ledger: Ledger, clock: Clock, url: str, run_id: str
) -> None:
    zombie = leased_stage(ledger)
    ledger.stages.store(zombie, list(items_of_stage(["old"])))
    clock.now += LEASE_SECONDS + 1
    successor = leased_stage(ledger)
    ledger.stages.clear(successor)
    ledger.stages.store(successor, list(items_of_stage(["new"])))
    for verb in VERBS.values():
        with pytest.raises(LeaseLost):
            verb(ledger, zombie)
    assert [key for stage, key in stored_keys(url, run_id) if stage == 2] == ["new"]
    ledger.stages.open(successor, 1)
    assert violated(ledger, run_id) == []


def test_only_one_of_eight_planners_plans_a_run(ledger: Ledger, run_id: str) -> None:
    barrier = threading.Barrier(8)

    def look(_: int) -> LeasedStage | None:
        barrier.wait()
        return ledger.stages.lease([KIND], seconds=LEASE_SECONDS)

    with ThreadPoolExecutor(8) as pool:
        found = [leased for leased in pool.map(look, range(8)) if leased is not None]
    assert [leased.run_id for leased in found] == [run_id]


def test_a_renewed_lease_is_not_given_to_others(ledger: Ledger, clock: Clock, run_id: str) -> None:
    leased = leased_stage(ledger)
    for _ in range(3):
        clock.now += LEASE_SECONDS - 1
        ledger.stages.renew(leased, LEASE_SECONDS)
    assert ledger.stages.lease([KIND], seconds=LEASE_SECONDS) is None
    assert ledger.stages.is_ours(leased)


def test_a_stage_opens_with_exactly_its_planned_items(ledger: Ledger, run_id: str) -> None:
    leased = leased_stage(ledger)
    ledger.stages.store(leased, list(items_of_stage(["a"])))
    with pytest.raises(InternalError, match="1 items of stage 2 are stored, 2 were planned"):
        ledger.stages.open(leased, 2)
    assert ledger.runs.get(run_id).request_counts.total == 4


def test_repeated_planner_deaths_fail_the_run_with_a_code(ledger: Ledger, clock: Clock, run_id: str) -> None:
    for _ in range(MAX_ATTEMPTS):
        leased_stage(ledger)
        clock.now += LEASE_SECONDS + 1
    assert ledger.stages.lease([KIND], seconds=LEASE_SECONDS) is None
    run = ledger.runs.get(run_id)
    assert run.state == "failed"
    assert run.problem is not None
    assert run.problem.code == "lease-lost"
    assert run.problem.detail == "stage 2 could not be planned: 3 workers began to plan it and none came back"
    assert violated(ledger, run_id) == []
    ledger.runs.resume(run_id)
    assert leased_stage(ledger).run_id == run_id


class Broken(FourStages):
    """Raises its errors, one each time its second stage is planned."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__(many=1)
        self.errors = list(errors)

    def next_stage(self, run: Run, results: Iterator[RunItem[Any]]) -> StagePlan | None:
        """Raise, or plan."""
        if run.stage == 1 and self.errors:
            self.asked.append(2)
            raise self.errors.pop(0)
        return super().next_stage(run, results)


class BrokenHalfway(Broken):
    """Raises after half of the second stage is stored."""

    def next_stage(self, run: Run, results: Iterator[RunItem[Any]]) -> StagePlan | None:
        """Return a plan whose items raise midway."""
        if run.stage == 1 and self.errors:
            return StagePlan(self._half())
        return super().next_stage(run, results)

    def _half(self) -> Iterator[Any]:
        yield from items_of_stage(str(number) for number in range(CHUNK))
        raise self.errors.pop(0)


async def work_off(ledger: Ledger, method: FourStages) -> None:
    while await plan_one(ledger, method):
        finish_all(ledger)


@pytest.mark.parametrize("kind", [Broken, BrokenHalfway])
async def test_an_unexpected_planning_error_fails_the_run_until_a_resume(
    ledger: Ledger, run_id: str, kind: type[Broken]
) -> None:
    method = kind(ZeroDivisionError("a defect"))
    await work_off(ledger, method)
    run = ledger.runs.get(run_id)
    assert (run.state, run.request_counts.done, run.request_counts.total) == ("failed", 4, 4)
    assert run.problem is not None
    assert run.problem.code == "internal-error"
    assert run.problem.detail == "stage 2 could not be planned: unexpected ZeroDivisionError"
    assert violated(ledger, run_id) == []
    assert ledger.runs.resume(run_id).state == "finalizing"
    assert ledger.runs.get(run_id).problem is None
    await work_off(ledger, method)
    assert ledger.runs.get(run_id).state == "completed"
    assert ledger.runs.get(run_id).request_counts.done == 9


@pytest.mark.parametrize("errors", [MAX_ATTEMPTS - 1, MAX_ATTEMPTS])
async def test_a_temporary_error_is_retried_up_to_three_attempts(
    ledger: Ledger, clock: Clock, run_id: str, errors: int
) -> None:
    method = Broken(*[BackendUnavailable("locked") for _ in range(errors)])
    for _ in range(10):
        await work_off(ledger, method)
        clock.now += 60
    assert method.asked.count(2) == MAX_ATTEMPTS
    run = ledger.runs.get(run_id)
    assert run.state == ("failed" if errors == MAX_ATTEMPTS else "completed")
    assert (run.problem.code if run.problem else None) == (
        "backend-unavailable" if errors == MAX_ATTEMPTS else None
    )


async def test_a_retry_waits_a_little(ledger: Ledger, clock: Clock, run_id: str) -> None:
    method = Broken(BackendUnavailable("locked"))
    assert await plan_one(ledger, method)
    assert not await plan_one(ledger, method)
    clock.now += 2
    assert await plan_one(ledger, method)
    assert ledger.runs.get(run_id).stage == 2


class Repeating(FourStages):
    """Plans items that the run already has."""

    def next_stage(self, run: Run, results: Iterator[RunItem[Any]]) -> StagePlan | None:
        """Plan one new and one old item."""
        return StagePlan(items_of_stage(["new", "key-3"]))


async def test_a_plan_with_a_duplicate_item_is_refused_by_its_key(ledger: Ledger, run_id: str) -> None:
    assert await plan_one(ledger, Repeating())
    run = ledger.runs.get(run_id)
    assert run.problem is not None
    assert run.problem.detail == "stage 2 could not be planned: stage 2 repeats the item key 'key-3'"
    assert run.request_counts.total == 4


async def test_a_plan_beyond_the_quota_fails_the_run_by_name(ledger: Ledger, run_id: str) -> None:
    planning = planner(ledger, FourStages(), lease_seconds=LEASE_SECONDS, most_items=7)
    leased = await planning.lease()
    assert leased is not None
    await planning.plan(leased)
    run = ledger.runs.get(run_id)
    assert run.problem is not None
    assert run.problem.code == QuotaExceeded.code


class Slow(FourStages):
    """Plans only when the test allows it."""

    def __init__(self) -> None:
        super().__init__(many=1)
        self.started, self.go_on = threading.Event(), threading.Event()

    def next_stage(self, run: Run, results: Iterator[RunItem[Any]]) -> StagePlan | None:
        """Wait, then plan."""
        self.started.set()
        assert self.go_on.wait(100)
        return super().next_stage(run, results)


async def test_a_lease_is_renewed_while_the_method_plans(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, run_id: str
) -> None:
    monkeypatch.setattr(renewal, "RENEW_AT_MOST_SECONDS", 0.001)
    method, renewals, renew = Slow(), [0], Stages.renew

    def count(stages: Stages, leased: LeasedStage, seconds: float) -> None:
        renew(stages, leased, seconds)
        renewals[0] += 1
        if renewals[0] == 3:
            method.go_on.set()

    monkeypatch.setattr(Stages, "renew", count)
    assert await plan_one(ledger, method)
    assert renewals[0] >= 3
    assert ledger.runs.get(run_id).stage == 2


async def test_a_cleanly_stopped_planner_costs_no_attempt_and_writes_nothing(
    ledger: Ledger, url: str, run_id: str
) -> None:
    for _ in range(MAX_ATTEMPTS + 1):
        method = Slow()
        planning = planner(ledger, method)
        leased = await planning.lease()
        assert leased is not None
        task = asyncio.create_task(planning.plan(leased))
        await asyncio.to_thread(method.started.wait, 100)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        method.go_on.set()
    await work_off(ledger, FourStages(many=1))
    assert ledger.runs.get(run_id).state == "completed"
    assert len(stored_keys(url, run_id)) == 9
    assert violated(ledger, run_id) == []


@pytest.mark.parametrize("verb", ["renew", "fail", "release"])
async def test_a_brief_ledger_outage_does_not_stop_a_planner(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, clock: Clock, run_id: str, verb: str
) -> None:
    monkeypatch.setattr(renewal, "RENEW_AT_MOST_SECONDS", 0.001)

    def away(*_: object) -> None:
        raise BackendUnavailable("locked")

    with monkeypatch.context() as patched:
        patched.setattr(Stages, verb, away)
        await plan_one(ledger, Broken(InternalError("a defect")) if verb == "fail" else FourStages(1))
    clock.now += LEASE_SECONDS + 1
    await work_off(ledger, FourStages(many=1))
    finish_all(ledger)
    await work_off(ledger, FourStages(many=1))
    assert ledger.runs.get(run_id).state == "completed"
