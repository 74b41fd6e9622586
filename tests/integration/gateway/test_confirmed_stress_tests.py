"""Stress tests that confirm, through ledger and API: stages, cancel, resume, failures, and reports."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from counterpose import AsyncClient
from counterpose_core.contract.confirmation import Instruction
from counterpose_core.contract.editor import EditRequest, EditResponse
from counterpose_core.contract.runs import Item
from counterpose_core.errors import InternalError
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.worker.planner import Planner
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated
from fakes.ledgers import planned_items
from fakes.ports import FakeEditor, fake_services

BODY = {
    "dataset": "demo", "classifiers": ["steady", "leaning"], "edit_types": ["background"],
    "max_edits_per_image": 3, "lance_r_edits_per_image": 0, "confirm_share": 0.5, "seed": 3,
}  # fmt: skip
CLASSES = ("sled", "boat")
PER_CLASS = 20


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path) as opened:
        await opened.upload("demo", PER_CLASS, CLASSES)
        yield opened


async def created(gateway: FakeGateway, **changes: object) -> str:
    """The id of a new run."""
    answer = await gateway.http.post("/v1/stress-tests", json=BODY | changes)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def read(gateway: FakeGateway, run_id: str, path: str = "") -> dict[str, Any]:
    """What the API says of a run."""
    answer: dict[str, Any] = (await gateway.http.get(f"/v1/runs/{run_id}{path}")).json()
    return answer


async def items(gateway: FakeGateway, run_id: str) -> list[dict[str, Any]]:
    """All items of a run by the API."""
    page = await read(gateway, run_id, "/items?limit=1000")
    found: list[dict[str, Any]] = page["items"]
    return found


def no_planner(gateway: FakeGateway) -> Planner:
    """A planner of no method: with it a staged run never ends."""
    return Planner(gateway.ledger, {}, lease_seconds=30.0, most_items=1)


async def test_a_run_screens_confirms_and_reports(gateway: FakeGateway) -> None:
    run_id = await created(gateway)
    await gateway.worker().work_off()
    run = await read(gateway, run_id)
    assert (run["state"], run["stage"]) == ("completed", 3)
    plan = run["resolved_config"]["confirmation"]
    assert (plan["screened"], plan["fresh"], plan["reason"]) == (20, 20, None)
    assert run["request_counts"]["total"] <= PER_CLASS * len(CLASSES) * 5
    assert violated(gateway.ledger, run_id) == []
    audited = await (await AsyncClient(http=gateway.http).stress_tests.get(run_id)).audit()
    assert audited.violations == []
    summary = await read(gateway, run_id, "/summary")
    assert [(each["state"], each["flipped"], each["of"]) for each in summary["findings"]] == [
        ("breaks", 10, 10), ("breaks", 10, 10),
    ]  # fmt: skip
    assert summary["confirmation"]["hypotheses"] == 2
    assert (await gateway.http.get(f"/v1/runs/{run_id}/report")).status_code == 200
    assert (await gateway.http.get(f"/v1/runs/{run_id}/export")).status_code == 200


async def test_the_api_shows_what_each_later_item_is_for(gateway: FakeGateway) -> None:
    run_id = await created(gateway)
    await gateway.worker().work_off()
    listed = await items(gateway, run_id)
    assert {item["instruction"] for item in listed if item["stage"] == 1} == {None}
    asked = [item["instruction"] for item in listed if item["kind"] == "confirmation"]
    assert {each["wording"]["added"] for each in asked} == {"in the snow"}
    lines = (await gateway.http.get(f"/v1/runs/{run_id}/results")).text.splitlines()
    assert json.loads(lines[-1])["complete"] is True
    assert [json.loads(line)["instruction"] for line in lines[:-1]] == [
        item["instruction"] for item in listed
    ]


async def test_a_run_that_does_not_confirm_is_as_it_was(gateway: FakeGateway) -> None:
    run_id = await created(gateway, confirm=False)
    await gateway.worker(planner=no_planner(gateway)).work_off()
    run = await read(gateway, run_id)
    assert (run["state"], run["stage"], run["resolved_config"]["confirmation"]) == ("completed", 1, None)
    assert Counter(item["kind"] for item in await items(gateway, run_id)) == {
        "edit": 120, "reconstruction": 40, "placebo": 40,
    }  # fmt: skip


async def test_a_folder_that_is_too_small_has_one_stage_and_says_why(gateway: FakeGateway) -> None:
    await gateway.upload("small", 19, CLASSES)
    run_id = await created(gateway, dataset="small")
    await gateway.worker(planner=no_planner(gateway)).work_off()
    summary = await read(gateway, run_id, "/summary")
    assert summary["confirmation"]["reason"].startswith("the largest class has 19 images")
    assert summary["findings"] == []
    assert summary["verdicts"][0]["state"] == "breaks"
    assert (await read(gateway, run_id))["state"] == "completed"


async def test_the_quota_is_about_all_stages(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, max_items_per_run=199) as gateway:
        await gateway.upload("demo", PER_CLASS, CLASSES)
        answer = await gateway.http.post("/v1/stress-tests", json=BODY)
        assert (answer.status_code, answer.json()["code"]) == (429, "quota-exceeded")
        assert (await gateway.http.post("/v1/stress-tests", json=BODY | {"limit": 39})).status_code == 202


async def test_a_run_cancelled_in_its_second_stage_goes_on_where_it_was(gateway: FakeGateway) -> None:
    run_id = await created(gateway)
    worker = gateway.worker(concurrency=1)
    while (await read(gateway, run_id))["stage"] == 1:
        work = await worker._next_work()
        assert work is not None
        await work
    before = {item["id"] for item in await items(gateway, run_id)}
    await gateway.http.post(f"/v1/runs/{run_id}/cancel")
    await gateway.worker().work_off()
    assert (await read(gateway, run_id))["state"] == "cancelled"
    cancelled = await read(gateway, run_id, "/summary")
    assert {each["state"] for each in cancelled["findings"]} == {"suspected"}
    assert cancelled["findings"][0]["confirmed"]["dropped"] == {"cancelled": 5}

    await gateway.http.post(f"/v1/runs/{run_id}/resume")
    await gateway.worker().work_off()
    assert (await read(gateway, run_id))["state"] == "completed"
    assert {item["id"] for item in await items(gateway, run_id) if item["stage"] < 3} == before
    summary = await read(gateway, run_id, "/summary")
    assert {(each["state"], each["of"]) for each in summary["findings"]} == {("breaks", 10)}
    assert violated(gateway.ledger, run_id) == []


class NoSnow(FakeEditor):
    """Fails at every edit of a confirmation while it is out of order."""

    broken = False

    async def edit(self, request: EditRequest) -> EditResponse:
        if self.broken and len(request.items) <= 2 and self.calls["reconstruct"] >= 20:
            raise InternalError("the editor is out of order")
        return await super().edit(request)


async def test_confirmations_that_failed_are_tried_again_on_resume(tmp_path: Path) -> None:
    editors: list[NoSnow] = []

    def ports(world: Any) -> Any:
        editors.append(NoSnow(world))
        return fake_services(world, editor=editors[0])

    async with fake_gateway(tmp_path, ports=ports) as gateway:
        await gateway.upload("demo", PER_CLASS, CLASSES)
        run_id = await created(gateway)
        editors[0].broken = True
        await gateway.worker().work_off()
        assert (await read(gateway, run_id))["state"] == "completed_with_failures"
        failed = await read(gateway, run_id, "/summary")
        assert {each["state"] for each in failed["findings"]} == {"suspected"}
        editors[0].broken = False
        await gateway.http.post(f"/v1/runs/{run_id}/resume")
        await gateway.worker().work_off()
        run, summary = await read(gateway, run_id), await read(gateway, run_id, "/summary")
        assert (run["state"], run["stage"]) == ("completed", 3)
        assert {each["state"] for each in summary["findings"]} == {"breaks"}
        assert violated(gateway.ledger, run_id) == []


def test_an_instruction_comes_back_as_it_was_planned(ledger: Ledger) -> None:
    known: dict[str, object] = {"wording": {"removed": "“food”", "added": "früit"}, "classifiers": ["a", "b"]}
    first, *others = planned_items(1, 2)
    told = PlannedItem(**vars(first) | {"instruction": known})
    run_id = ledger.runs.create(
        kind="stress-test", dataset="demo", config={}, items=[told, *others], fingerprint="f" * 64
    ).id
    group = ledger.items.lease("worker", seconds=30.0)
    assert group is not None
    assert [item.instruction for item in group.items][:2] == [known, None]
    listed = list(ledger.items.of(run_id, Item))
    assert listed[0].instruction == Instruction.model_validate(known)
    assert listed[1].instruction is None
