"""Runs of all kinds in one list, their names, and what deleting one leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.contract.runs import Item, ItemResult
from counterpose_core.errors import NotFound, RunNotDeletable
from counterpose_core.types import Cost
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.outcomes import Done
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated
from fakes.ledgers import Clock, planned_items
from fakes.problems import problem

BODY = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "seed": 3}


def new_run(ledger: Ledger, number: int = 0, **changes: object) -> str:
    """The id of a new run of two sources with two items each."""
    values: dict[str, object] = {
        "kind": "stress-test", "dataset": "demo", "config": {}, "items": planned_items(2, 2),
        "fingerprint": f"{number}" * 64,
    }  # fmt: skip
    return ledger.runs.create(**values | changes).id  # type: ignore[arg-type]


def test_an_ended_run_is_deleted_with_all_its_rows_and_no_other(ledger: Ledger) -> None:
    kept, gone = new_run(ledger), new_run(ledger, 1)
    with pytest.raises(RunNotDeletable, match="is queued; cancel it"):
        ledger.runs.delete(gone)
    ledger.runs.cancel(gone)
    ledger.runs.delete(gone)
    for call in (
        ledger.runs.get,
        ledger.events.last,
        ledger.runs.delete,
        ledger.runs.cancel,
        ledger.runs.resume,
    ):
        with pytest.raises(NotFound, match=f"run '{gone}' was deleted"):
            call(gone)
    with pytest.raises(NotFound, match="was deleted"):
        ledger.items.page(gone, Item)
    assert ledger.events.page(gone, after=0) == []
    assert [run.id for run in ledger.runs.page().runs] == [kept]
    assert violated(ledger, kept) == []
    assert len(ledger.items.page(kept, Item).items) == 4


def test_what_a_deleted_run_cost_goes_on_counting(ledger: Ledger) -> None:
    run_id = new_run(ledger)
    group = ledger.items.lease("worker", seconds=30.0)
    assert group is not None
    made = Done(result=ItemResult(image="0" * 64, caption="a sled", cost=Cost(clip_passes=7)))
    for item in group.items:
        ledger.items.finish(item.id, item.fence, made)
    spent = ledger.measurements.read().cost
    assert spent == Cost(clip_passes=14)
    ledger.runs.cancel(run_id)
    ledger.runs.delete(run_id)
    assert ledger.measurements.read().cost == spent


def test_a_run_whose_evidence_another_needs_goes_only_with_it(ledger: Ledger) -> None:
    parent = new_run(ledger)
    ledger.runs.cancel(parent)
    child = new_run(ledger, 1, parent=parent)
    ledger.runs.cancel(child)
    with pytest.raises(RunNotDeletable, match=f"part of the evidence of run '{parent}'"):
        ledger.runs.delete(child)
    ledger.runs.delete(parent)
    assert ledger.runs.get(child).parent == parent
    ledger.runs.delete(child)


def test_runs_are_listed_by_kind_state_dataset_and_parent(ledger: Ledger, clock: Clock) -> None:
    first = new_run(ledger)
    ledger.runs.cancel(first)
    clock.now += 1
    second = new_run(ledger, 1, kind="dataset-interface", dataset="other")
    clock.now += 1
    third = new_run(ledger, 2, parent=first)
    assert [run.id for run in ledger.runs.page().runs] == [third, second, first]
    assert [run.id for run in ledger.runs.page(kind="stress-test").runs] == [third, first]
    assert [run.id for run in ledger.runs.page(state="cancelled").runs] == [first]
    assert [run.id for run in ledger.runs.page(dataset="other").runs] == [second]
    assert [run.id for run in ledger.runs.page(parent=first).runs] == [third]
    page = ledger.runs.page(kind="stress-test", limit=1)
    assert [run.id for run in ledger.runs.page(kind="stress-test", after=page.after).runs] == [first]


@pytest.fixture
def run_id(ledger: Ledger) -> str:
    return new_run(ledger)


def test_items_are_read_by_kind_state_and_class(ledger: Ledger, run_id: str) -> None:
    group = ledger.items.lease("worker", seconds=30.0)
    assert group is not None
    leased = ledger.items.page(run_id, Item, state="leased").items
    assert [item.id for item in leased] == [item.id for item in group.items]
    assert ledger.items.page(run_id, Item, state="done").items == []
    every = ledger.items.page(run_id, Item).items
    for item in every:
        alike = ledger.items.page(run_id, Item, kind=item.kind, label=item.label).items
        assert [each.id for each in alike] == [
            each.id for each in every if (each.kind, each.label) == (item.kind, item.label)
        ]
        assert ledger.items.get(run_id, item.id, Item) == item
    with pytest.raises(NotFound, match="has no item 'x'"):
        ledger.items.get(run_id, "x", Item)


async def created(gateway: FakeGateway) -> str:
    """The address of a new run."""
    await gateway.upload("demo", 1)
    return f"/v1/runs/{(await gateway.http.post('/v1/stress-tests', json=BODY)).json()['id']}"


async def test_the_api_lists_names_and_deletes(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        one = await created(gateway)
        named = await gateway.http.patch(one, json={"name": "before the retraining"})
        assert named.json()["name"] == "before the retraining"
        [listed] = (await gateway.http.get("/v1/runs?kind=stress-test&dataset=demo")).json()["runs"]
        assert listed["name"] == "before the retraining"
        assert (await gateway.http.get("/v1/runs?kind=shift-benchmark")).json()["runs"] == []
        item = (await gateway.http.get(f"{one}/items?limit=1")).json()["items"][0]
        assert (await gateway.http.get(f"{one}/items/{item['id']}")).json() == item
        problem(await gateway.http.delete(one), 409, "run-not-deletable")
        await gateway.http.post(f"{one}/cancel")
        answer = await gateway.http.delete(one)
        assert (answer.status_code, answer.content) == (204, b"")
        for answer in (await gateway.http.delete(one), await gateway.http.get(one)):
            assert "was deleted" in problem(answer, 404, "not-found").detail


@pytest.mark.parametrize("name", ["", " x", "x ", "a\nb", 121 * "x", 7])
async def test_a_name_is_one_line(tmp_path: Path, name: object) -> None:
    async with fake_gateway(tmp_path) as gateway:
        one = await created(gateway)
        problem(await gateway.http.patch(one, json={"name": name}), 422, "invalid-request")
        problem(await gateway.http.patch(one, json={}), 422, "invalid-request")
        assert (await gateway.http.patch(one, json={"name": None})).json()["name"] is None
