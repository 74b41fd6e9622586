"""The worker and staged runs: it plans stages between items, and a request creates such a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from counterpose_gateway.progress import following
from counterpose_gateway.records.items import LeasedGroup
from counterpose_gateway.worker import worker as worker_module
from counterpose_gateway.worker.worker import LedgerRecorder, Worker
from fakes.following import waited_for
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated
from fakes.ledgers import done
from fakes.staged_runs import FourStages, create_staged_run, planner


@pytest.fixture
async def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeGateway]:
    monkeypatch.setattr(worker_module, "IDLE_SECONDS", 0.01)
    monkeypatch.setattr(following, "LOOK_SECONDS", 0.01)
    async with fake_gateway(tmp_path) as opened:
        yield opened


class FinishingWorker(Worker):
    """Records a good outcome for every item without a service."""

    async def _run_workflow(self, group: LeasedGroup, record: LedgerRecorder) -> None:
        for item in group.items:
            await asyncio.to_thread(self._ledger.items.finish, item.id, item.fence, done())


def worker(gateway: FakeGateway, method: FourStages, concurrency: int = 3) -> FinishingWorker:
    return FinishingWorker(
        "worker", ledger=gateway.ledger, store=gateway.store, services=gateway.services,
        concurrency=concurrency, lease_seconds=30.0, planner=planner(gateway.ledger, method),
    )  # fmt: skip


async def test_workers_plan_and_process_each_stage_once_until_the_run_ends(gateway: FakeGateway) -> None:
    run_id, method, stop = create_staged_run(gateway.ledger), FourStages(many=30), asyncio.Event()
    working = [asyncio.create_task(worker(gateway, method).work(stop)) for _ in range(2)]
    assert (await waited_for(gateway.ledger, run_id, 60)).state == "completed"
    stop.set()
    await asyncio.gather(*working)
    assert method.asked == [2, 3, 4, 5]
    assert gateway.ledger.runs.get(run_id).request_counts.done == 38
    assert {item.attempts for item in gateway.ledger.items.all(run_id)} == {1}
    assert violated(gateway.ledger, run_id) == []


async def test_stages_are_planned_before_more_items_are_leased(gateway: FakeGateway) -> None:
    waiting, busy = create_staged_run(gateway.ledger, sources=0), create_staged_run(gateway.ledger)
    method = FourStages(many=1)
    work = await worker(gateway, method)._next_work()
    assert work is not None
    await work
    assert gateway.ledger.runs.get(waiting).stage == 2
    assert gateway.ledger.runs.get(busy).state == "queued"


async def test_work_off_plans_every_stage(gateway: FakeGateway) -> None:
    run_id = create_staged_run(gateway.ledger)
    await worker(gateway, FourStages(many=5)).work_off()
    assert gateway.ledger.runs.get(run_id).state == "completed"


async def test_a_request_to_a_staged_method_creates_a_staged_run(gateway: FakeGateway) -> None:
    # Enough images of a class that some are kept for a later stage.
    await gateway.upload("demo", 16, ("sled", "boat"))
    body = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "seed": 3}
    run_id = str((await gateway.http.post("/v1/stress-tests", json=body)).json()["id"])
    method = FourStages(many=2)
    await worker(gateway, method).work_off()
    assert method.asked == [2, 3, 4, 5]
    answer = (await gateway.http.get(f"/v1/runs/{run_id}")).json()
    assert (answer["state"], answer["stage"], answer["parent"]) == ("completed", 4, None)
    items = (await gateway.http.get(f"/v1/runs/{run_id}/items?limit=1000")).json()["items"]
    assert {item["stage"] for item in items} == {1, 2, 4}
