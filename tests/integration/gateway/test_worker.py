"""The worker over a real ledger: it records outcomes, keeps leases alive and stops cleanly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterpose_core.backoff import Backoff
from counterpose_core.contract.base import Outcome
from counterpose_core.contract.captioner import CaptionRequest, CaptionResponse
from counterpose_core.contract.editor import EditedImage, EditRequest, EditResponse
from counterpose_core.errors import BackendUnavailable, BadBackendOutput, LeaseLost
from counterpose_gateway.ledger.items.items import Items
from counterpose_gateway.methods import METHODS
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.progress import following
from counterpose_gateway.records.outcomes import Filtered
from counterpose_gateway.runs import renewal
from counterpose_gateway.worker import shared_ledger
from counterpose_gateway.worker import worker as worker_module
from counterpose_gateway.worker.shared_ledger import SharedLedger, retry_ledger
from counterpose_gateway.worker.worker import LedgerRecorder
from fakes.following import waited_for
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated
from fakes.ledgers import Clock, lease
from fakes.ports import FakeCaptioner, FakeEditor, fake_services

BODY = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "seed": 3,
        "max_edits_per_image": 1}  # fmt: skip


@pytest.fixture
async def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeGateway]:
    monkeypatch.setattr(worker_module, "IDLE_SECONDS", 0.01)
    monkeypatch.setattr(worker_module, "DRAIN_SECONDS", 0.05)
    monkeypatch.setattr(following, "LOOK_SECONDS", 0.01)
    # Time stands still: a failed item stays pending however slow this machine is.
    async with fake_gateway(tmp_path, Clock()) as opened:
        await opened.upload("demo", 1)
        yield opened


async def created(gateway: FakeGateway) -> str:
    answer = await gateway.http.post("/v1/stress-tests", json=BODY)
    return str(answer.json()["id"])


class StuckCaptioner(FakeCaptioner):
    """Takes calls and never answers."""

    started: asyncio.Event

    async def caption(self, request: CaptionRequest) -> CaptionResponse:
        self.started.set()
        await asyncio.Event().wait()
        return await super().caption(request)


def stuck(gateway: FakeGateway) -> StuckCaptioner:
    captioner = StuckCaptioner(gateway.world)
    captioner.started = asyncio.Event()
    return captioner


async def test_a_concurrent_worker_finishes_a_run_and_stops_on_request(gateway: FakeGateway) -> None:
    run_id, stop = await created(gateway), asyncio.Event()
    working = asyncio.create_task(gateway.worker(concurrency=3).work(stop))
    assert (await waited_for(gateway.ledger, run_id, 100)).state == "completed"
    stop.set()
    await working
    assert violated(gateway.ledger, run_id) == []


async def test_a_clean_stop_releases_unfinished_items_without_an_attempt(gateway: FakeGateway) -> None:
    run_id, stop, captioner = await created(gateway), asyncio.Event(), stuck(gateway)
    services = fake_services(gateway.world, captioner=captioner)
    working = asyncio.create_task(gateway.worker(services, concurrency=1).work(stop))
    await captioner.started.wait()
    stop.set()
    await working
    assert {item.state for item in gateway.ledger.items.all(run_id)} == {"pending"}
    assert {item.attempts for item in gateway.ledger.items.all(run_id)} == {0}
    await gateway.worker().work_off()
    assert gateway.ledger.runs.get(run_id).state == "completed"


@pytest.mark.fault("F19")
async def test_cancelling_a_run_stops_hanging_work(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewal, "RENEW_AT_MOST_SECONDS", 0.01)
    run_id, captioner = await created(gateway), stuck(gateway)
    services = fake_services(gateway.world, captioner=captioner)
    working = asyncio.create_task(gateway.worker(services).work_off())
    await captioner.started.wait()
    gateway.ledger.runs.cancel(run_id)
    await asyncio.wait_for(working, 60)
    assert gateway.ledger.runs.get(run_id).state == "cancelled"
    assert violated(gateway.ledger, run_id) == []


async def test_leases_are_renewed_during_work(gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "RENEW_AT_MOST_SECONDS", 0.01)
    renewed = asyncio.Event()
    loop = asyncio.get_running_loop()
    renew = Items.renew_many

    def noted(part: Items, *arguments: object) -> list[str]:
        loop.call_soon_threadsafe(renewed.set)
        return renew(part, *arguments)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(Items, "renew_many", noted)
    await created(gateway)
    captioner, stop = stuck(gateway), asyncio.Event()
    services = fake_services(gateway.world, captioner=captioner)
    working = asyncio.create_task(gateway.worker(services, concurrency=1).work(stop))
    await asyncio.wait_for(renewed.wait(), 60)
    stop.set()
    await working


class LyingEditor(FakeEditor):
    """Answers no value of the sweep."""

    async def edit(self, request: EditRequest) -> EditResponse:
        answer = await super().edit(request)
        nothing = Outcome[EditedImage](value=EditedImage(variants=[]))
        return answer.model_copy(update={"outcomes": [nothing] * len(request.items)})


@pytest.mark.fault("F12")
async def test_items_of_a_lying_service_fail_with_a_reason_and_the_rest_finish(
    gateway: FakeGateway,
) -> None:
    run_id = await created(gateway)
    services = fake_services(gateway.world, editor=LyingEditor(gateway.world))
    await gateway.worker(services).work_off()
    items = list(gateway.ledger.items.all(run_id))
    open_edits = [item for item in items if item.kind == "edit"]
    assert {(item.state, item.code) for item in open_edits} == {("pending", BadBackendOutput.code)}
    assert {item.state for item in items if item.kind == "reconstruction"} == {"done"}


async def test_an_unexpected_error_in_a_worker_loop_stops_the_worker(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(part: Items, *arguments: object, **options: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Items, "lease_many", fail)
    with pytest.raises(RuntimeError, match="a defect"):
        await gateway.worker().work(asyncio.Event())


@pytest.mark.fault("F22")
async def test_the_worker_waits_for_an_unavailable_ledger(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, lease_groups = await created(gateway), Items.lease_many
    troubles = iter([BackendUnavailable("locked")])

    def sometimes(part: Items, worker: str, **asked: Any) -> object:
        for trouble in troubles:
            raise trouble
        return lease_groups(part, worker, **asked)

    monkeypatch.setattr(Items, "lease_many", sometimes)
    stop = asyncio.Event()
    working = asyncio.create_task(gateway.worker().work(stop))
    assert (await waited_for(gateway.ledger, run_id, 100)).state == "completed"
    stop.set()
    await working


@pytest.mark.fault("F22")
async def test_an_outcome_is_recorded_once_the_ledger_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_ledger, "LEDGER_BACKOFF", Backoff(0.0, 0.0))
    answers: list[Exception | str] = [BackendUnavailable("locked"), BackendUnavailable("locked"), "recorded"]

    def record() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert await retry_ledger(record) == "recorded"


@pytest.mark.fault("F6")
async def test_an_outcome_under_a_lost_lease_is_not_recorded(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await created(gateway)
    group = lease(gateway.ledger)
    record = LedgerRecorder(SharedLedger(gateway.ledger, "worker", 30.0), group, gateway.store)
    monkeypatch.setattr(shared_ledger, "CANCEL_SECONDS", 0.0)
    assert await record.cancelled() is False
    gateway.ledger.runs.cancel(run_id)
    assert await record.cancelled() is True
    with pytest.raises(LeaseLost):
        await record.ended([(group.items[0], Filtered(reason="no-edit"))])


async def test_items_left_open_by_a_method_are_released(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*arguments: object, **options: object) -> None:
        raise LeaseLost("another worker has it")

    run_id = await created(gateway)
    monkeypatch.setitem(METHODS, "stress-test", replace(STRESS_TEST, process=nothing))
    worker = gateway.worker()
    group = await worker._shared.lease()
    assert group is not None
    await worker._process(group)
    assert {item.state for item in gateway.ledger.items.all(run_id)} == {"pending"}
