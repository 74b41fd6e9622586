"""A worker with failures: an unavailable ledger, leases it cannot renew or release, a failing source."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterpose_core.backoff import Backoff
from counterpose_core.contract.captioner import CaptionRequest, CaptionResponse
from counterpose_core.contract.editor import EditRequest, EditResponse
from counterpose_core.contract.runs import ItemResult
from counterpose_core.errors import BackendUnavailable, InternalError, LeaseLost, StorageFull
from counterpose_gateway.ledger.items.items import Items
from counterpose_gateway.methods import METHODS
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.records.outcomes import Done, Failed, Filtered
from counterpose_gateway.runs import renewal
from counterpose_gateway.worker import shared_ledger
from counterpose_gateway.worker import worker as worker_module
from counterpose_gateway.worker.shared_ledger import LEDGER_TRIES, SharedLedger, retry_ledger
from counterpose_gateway.worker.worker import LedgerRecorder
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated
from fakes.ledgers import Clock
from fakes.ports import FakeCaptioner, FakeEditor, fake_services

BODY = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "seed": 3,
        "max_edits_per_image": 1, "lance_r_edits_per_image": 0}  # fmt: skip


@pytest.fixture
async def gateway(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FakeGateway]:
    """A gateway with four images, whose workers lose no time."""
    monkeypatch.setattr(worker_module, "IDLE_SECONDS", 0.01)
    monkeypatch.setattr(shared_ledger, "LEDGER_BACKOFF", Backoff(0.0, 0.0))
    async with fake_gateway(tmp_path, clock) as opened:
        await opened.upload("demo", 1)
        yield opened


async def created(gateway: FakeGateway) -> str:
    answer = await gateway.http.post("/v1/stress-tests", json=BODY)
    return str(answer.json()["id"])


def states(gateway: FakeGateway, run: str) -> Counter[str]:
    return Counter(item.state for item in gateway.ledger.items.all(run))


@pytest.mark.fault("F10")
@pytest.mark.parametrize("trouble", [BackendUnavailable("locked"), StorageFull("the disk is full")])
async def test_an_outcome_survives_a_temporarily_busy_or_full_ledger(
    monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    monkeypatch.setattr(shared_ledger, "LEDGER_BACKOFF", Backoff(0.0, 0.0))
    asked = [0]

    def record() -> str:
        asked[0] += 1
        if asked[0] <= LEDGER_TRIES:
            raise trouble
        return "recorded"

    assert await retry_ledger(record) == "recorded"
    assert asked[0] == LEDGER_TRIES + 1


async def test_retries_of_the_ledger_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    def record() -> None:
        raise BackendUnavailable("locked")

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(BackendUnavailable):
        await retry_ledger(record)
    assert len(pauses) == LEDGER_TRIES
    assert pauses == sorted(pauses)
    # SQLite itself waits 10 s for its lock.
    assert sum(pauses) > 10


async def test_retries_of_the_ledger_end_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_ledger, "LEDGER_BACKOFF", Backoff(0.0, 0.0))

    def record() -> None:
        raise BackendUnavailable("locked for good")

    with pytest.raises(BackendUnavailable, match="for good"):
        await retry_ledger(record)


async def test_permanent_errors_are_not_retried() -> None:
    asked = [0]

    def record() -> None:
        asked[0] += 1
        raise LeaseLost("another worker has it")

    with pytest.raises(LeaseLost):
        await retry_ledger(record)
    assert asked == [1]


async def test_a_lease_survives_a_brief_failure_to_renew_it(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(renewal, "RENEW_AT_MOST_SECONDS", 0.001)
    run, renew = await created(gateway), Items.renew_many
    troubles, renewed = [BackendUnavailable("locked")], asyncio.Event()
    loop = asyncio.get_running_loop()

    def sometimes(part: Items, group: Any, seconds: float) -> list[str]:
        if troubles:
            raise troubles.pop()
        loop.call_soon_threadsafe(renewed.set)
        return renew(part, group, seconds)

    class Slow(FakeCaptioner):
        """Answers once the lease has been renewed."""

        async def caption(self, request: CaptionRequest) -> CaptionResponse:
            """Wait, then caption."""
            await renewed.wait()
            return await super().caption(request)

    monkeypatch.setattr(Items, "renew_many", sometimes)
    services = fake_services(gateway.world, captioner=Slow(gateway.world))
    await gateway.worker(services).work_off()
    assert states(gateway, run) == {"done": 12}
    assert any("not renewed yet" in record.message for record in caplog.records)


async def test_a_lease_that_cannot_be_released_expires(
    gateway: FakeGateway, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run, release = await created(gateway), Items.release

    async def nothing(*arguments: object, **options: object) -> None:
        """Do nothing with the group."""

    def away(part: Items, group: object) -> None:
        raise BackendUnavailable("locked")

    with monkeypatch.context() as patched:
        patched.setitem(METHODS, "stress-test", replace(STRESS_TEST, process=nothing))
        patched.setattr(Items, "release", away)
        await gateway.worker(lease_seconds=30.0).work_off()
    assert states(gateway, run) == {"leased": 12}
    assert any("runs out by itself" in record.message for record in caplog.records)
    assert Items.release is release
    clock.now += 31
    await gateway.worker().work_off()
    assert states(gateway, run) == {"done": 12}
    assert violated(gateway.ledger, run) == []


async def test_an_unexpected_error_of_a_method_is_logged_and_its_items_released(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = await created(gateway)

    async def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setitem(METHODS, "stress-test", replace(STRESS_TEST, process=broken))
    worker = gateway.worker()
    group = await worker._shared.lease()
    assert group is not None
    await worker._process(group)
    assert states(gateway, run) == {"pending": 12}
    assert any(record.exc_info and record.levelname == "ERROR" for record in caplog.records)


async def test_a_failing_source_does_not_affect_other_sources(gateway: FakeGateway, clock: Clock) -> None:
    run = await created(gateway)
    poisoned = gateway.ledger.datasets.sources("demo")[0].image

    class Poisoned(FakeEditor):
        """Fails on one source with an unexpected error."""

        async def edit(self, request: EditRequest) -> EditResponse:
            """Edit all but the poisoned one."""
            if any(item.image == poisoned for item in request.items):
                raise MemoryError
            return await super().edit(request)

    await gateway.worker(fake_services(gateway.world, editor=Poisoned(gateway.world))).work_off()
    failed = [item for item in gateway.ledger.items.all(run) if item.state == "failed"]
    assert {item.source_image for item in failed} == {poisoned}
    assert {item.code for item in failed} == {InternalError.code}
    assert {item.detail for item in failed} == {"unexpected MemoryError"}
    assert gateway.ledger.runs.get(run).state == "completed_with_failures"


async def test_a_recorder_writes_every_kind_of_outcome_with_its_fence(gateway: FakeGateway) -> None:
    run = await created(gateway)
    group = gateway.ledger.items.lease("worker", seconds=30)
    assert group is not None
    record = LedgerRecorder(SharedLedger(gateway.ledger, "worker", 30.0), group, gateway.store)
    first, second, third = group.items
    await record.ended(
        [
            (first, Done(result=ItemResult(image="a" * 64, caption="a sled"))),
            (second, Filtered(reason="no-edit", detail="nothing was proposed")),
            (third, Failed(code="internal-error", detail="a defect")),
        ]
    )
    found = {item.id: item for item in gateway.ledger.items.all(run)}
    assert found[first.id].state == "done"
    assert (found[second.id].reason, found[second.id].detail) == ("no-edit", "nothing was proposed")
    assert (found[third.id].state, found[third.id].code) == ("failed", "internal-error")
    with pytest.raises(LeaseLost):
        await record.ended([(first, Done(result=ItemResult(image="b" * 64, caption="another sled")))])


@pytest.mark.fault("F30")
async def test_two_workers_share_a_run_and_record_each_item_once(gateway: FakeGateway) -> None:
    run = await created(gateway)
    await asyncio.gather(*(gateway.worker().work_off() for _ in range(4)))
    assert states(gateway, run) == {"done": 12}
    assert {item.attempts for item in gateway.ledger.items.all(run)} == {1}
    assert violated(gateway.ledger, run) == []
