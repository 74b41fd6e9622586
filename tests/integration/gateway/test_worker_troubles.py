"""A worker in trouble: the ledger away, a lease that cannot be renewed or given back, a poisoned source."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import Clock
from fakes.ports import FakeCaptioner, FakeEditor, fake_services
from faultline_core.contract.captioner import CaptionRequest, CaptionResponse
from faultline_core.contract.editor import EditRequest, EditResponse
from faultline_core.contract.runs import ItemResult
from faultline_core.errors import BackendUnavailable, InternalError, LeaseLost, StorageFull
from faultline_gateway import worker as worker_module
from faultline_gateway.ledger import Ledger
from faultline_gateway.worker import LEDGER_TRIES, LedgerRecorder, patiently
from faultline_gateway.workflows import stress_test

BODY = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "seed": 3,
        "max_edits_per_image": 1, "lance_r_edits_per_image": 0}  # fmt: skip


@pytest.fixture
async def gateway(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FakeGateway]:
    """A gateway with four pictures, whose workers lose no time."""
    monkeypatch.setattr(worker_module, "IDLE_SECONDS", 0.01)
    monkeypatch.setattr(worker_module, "LEDGER_PAUSE_SECONDS", 0.0)
    async with fake_gateway(tmp_path, clock) as opened:
        await opened.upload("demo", 1)
        yield opened


async def created(gateway: FakeGateway) -> str:
    answer = await gateway.http.post("/v1/stress-tests", json=BODY)
    return str(answer.json()["id"])


def states(gateway: FakeGateway, run: str) -> Counter[str]:
    return Counter(item.state for item in gateway.ledger.items(run))


@pytest.mark.parametrize("trouble", [BackendUnavailable("locked"), StorageFull("the disk is full")])
async def test_an_outcome_outlasts_a_ledger_that_is_busy_or_full_for_a_while(
    monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    monkeypatch.setattr(worker_module, "LEDGER_PAUSE_SECONDS", 0.0)
    asked = [0]

    def record() -> str:
        asked[0] += 1
        if asked[0] <= LEDGER_TRIES:
            raise trouble
        return "recorded"

    assert await patiently(record) == "recorded"
    assert asked[0] == LEDGER_TRIES + 1


async def test_patience_with_the_ledger_ends_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "LEDGER_PAUSE_SECONDS", 0.0)

    def record() -> None:
        raise BackendUnavailable("locked for good")

    with pytest.raises(BackendUnavailable, match="for good"):
        await patiently(record)


async def test_what_will_not_pass_is_not_tried_twice() -> None:
    asked = [0]

    def record() -> None:
        asked[0] += 1
        raise LeaseLost("somebody else has it")

    with pytest.raises(LeaseLost):
        await patiently(record)
    assert asked == [1]


async def test_a_lease_that_cannot_be_renewed_for_a_moment_is_not_given_up(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_module, "RENEW_AT_MOST_SECONDS", 0.001)
    run, renew = await created(gateway), Ledger.renew
    troubles, renewed = [BackendUnavailable("locked")], asyncio.Event()
    loop = asyncio.get_running_loop()

    def sometimes(ledger: Ledger, group: Any, seconds: float) -> list[str]:
        if troubles:
            raise troubles.pop()
        loop.call_soon_threadsafe(renewed.set)
        return renew(ledger, group, seconds)

    class Slow(FakeCaptioner):
        """Answers once the lease has been renewed after all."""

        async def caption(self, request: CaptionRequest) -> CaptionResponse:
            """Wait, then caption."""
            await renewed.wait()
            return await super().caption(request)

    monkeypatch.setattr(Ledger, "renew", sometimes)
    services = fake_services(gateway.world, captioner=Slow(gateway.world))
    await gateway.worker(services).work_off()
    assert states(gateway, run) == {"done": 12}
    assert any("not renewed yet" in record.message for record in caplog.records)


async def test_a_lease_that_cannot_be_given_back_runs_out_by_itself(
    gateway: FakeGateway, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run, release = await created(gateway), Ledger.release

    async def nothing(*arguments: object, **options: object) -> None:
        """Do nothing with the group."""

    def away(ledger: Ledger, group: object) -> None:
        raise BackendUnavailable("locked")

    with monkeypatch.context() as patched:
        patched.setattr(stress_test, "process", nothing)
        patched.setattr(Ledger, "release", away)
        await gateway.worker(lease_seconds=30.0).work_off()
    assert states(gateway, run) == {"leased": 12}
    assert any("runs out by itself" in record.message for record in caplog.records)
    assert Ledger.release is release
    clock.now += 31
    await gateway.worker().work_off()
    assert states(gateway, run) == {"done": 12}
    assert gateway.ledger.audit(run) == []


async def test_a_defect_of_the_workflow_is_logged_and_its_items_are_given_back(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = await created(gateway)

    async def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(stress_test, "process", broken)
    worker = gateway.worker()
    group = await worker._lease()
    assert group is not None
    await worker._process(group)
    assert states(gateway, run) == {"pending": 12}
    assert any(record.exc_info and record.levelname == "ERROR" for record in caplog.records)


async def test_the_other_sources_of_a_run_are_done_whatever_one_of_them_does(
    gateway: FakeGateway, clock: Clock
) -> None:
    run = await created(gateway)
    poisoned = gateway.ledger.sources("demo")[0].image

    class Poisoned(FakeEditor):
        """Fails on one source as only a defect fails."""

        async def edit(self, request: EditRequest) -> EditResponse:
            """Edit all but the poisoned one."""
            if any(item.image == poisoned for item in request.items):
                raise MemoryError
            return await super().edit(request)

    await gateway.worker(fake_services(gateway.world, editor=Poisoned(gateway.world))).work_off()
    failed = [item for item in gateway.ledger.items(run) if item.state == "failed"]
    assert {item.source_image for item in failed} == {poisoned}
    assert {item.code for item in failed} == {InternalError.code}
    assert {item.detail for item in failed} == {"unexpected MemoryError"}
    assert gateway.ledger.run(run).state == "completed_with_failures"


async def test_a_recorder_writes_each_kind_of_outcome_under_its_fence(gateway: FakeGateway) -> None:
    run = await created(gateway)
    group = gateway.ledger.lease_group("worker", seconds=30)
    assert group is not None
    record = LedgerRecorder(gateway.ledger, group)
    first, second, third = group.items
    await record.done(first, ItemResult(image="a" * 64, caption="a sled"))
    await record.filtered(second, "no-edit", "nothing was proposed")
    await record.failed(third, InternalError("a defect"))
    found = {item.id: item for item in gateway.ledger.items(run)}
    assert found[first.id].state == "done"
    assert (found[second.id].reason, found[second.id].detail) == ("no-edit", "nothing was proposed")
    assert (found[third.id].state, found[third.id].code) == ("failed", "internal-error")
    with pytest.raises(LeaseLost):
        await record.done(first, ItemResult(image="b" * 64, caption="another sled"))


async def test_two_workers_share_a_run_and_record_each_item_once(gateway: FakeGateway) -> None:
    run = await created(gateway)
    await asyncio.gather(*(gateway.worker().work_off() for _ in range(4)))
    assert states(gateway, run) == {"done": 12}
    assert {item.attempts for item in gateway.ledger.items(run)} == {1}
    assert gateway.ledger.audit(run) == []
