"""Recorded runs of load measurements have the form that a worker writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlalchemy import select

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.bug_hunts import HuntItem
from counterpose_core.contract.runs import Item
from counterpose_core.shift_benchmark.object_thresholds import OBJECT_PERCENTILE
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.methods.bug_hunt.method import BUG_HUNT
from counterpose_gateway.methods.shift_benchmark.method import SHIFT_BENCHMARK
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.runs.context import RecordedRuns
from counterpose_gateway.summaries.summaries import Summary
from evaluation.load.recorded import load_recorded
from evaluation.load.recorded_benchmarks import load_recorded_benchmark
from evaluation.load.recorded_hunts import load_recorded_hunt, written_hunt
from fakes.benchmarks import benchmark_body, benchmark_services, uploaded
from fakes.gateway import fake_gateway
from fakes.ledger_audit import violated
from fakes.ledgers import new_ledger

ITEMS = 1000
BODY = {"dataset": "demo", "classifiers": ["steady", "leaning"], "lance_r_edits_per_image": 0, "seed": 3}


def form(value: Any) -> Any:
    """The names and types of a document; of a list, those of its first entry."""
    if isinstance(value, dict):
        return {name: form(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(form(each) for each in value)
    if isinstance(value, list):
        return [form(each) for each in value[:1]]
    return type(value).__name__


def forms(ledger: Ledger, run_id: str) -> dict[tuple[str, str | None], list[Any]]:
    """Kind and edit type → the forms of such items."""
    found: dict[tuple[str, str | None], list[Any]] = {}
    for item in ledger.items.of(run_id, Item):
        of_item = form(item.model_dump(mode="json"))
        known = found.setdefault((item.kind, item.edit_type), [])
        if of_item not in known:
            known.append(of_item)
    return found


async def test_a_thousand_recorded_items_have_the_form_that_a_worker_writes(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    run_id = await load_recorded(ledger, f"sqlite:///{tmp_path}/ledger.db", ITEMS)
    (tmp_path / "written").mkdir()
    async with fake_gateway(tmp_path / "written") as gateway:
        await gateway.upload("demo", 6)
        written = (await gateway.http.post("/v1/stress-tests", json=BODY)).json()["id"]
        await gateway.worker().work_off()
        known = forms(gateway.ledger, written)
        state = gateway.ledger.runs.get(written).state
    found = forms(ledger, run_id)
    assert found.keys() == known.keys()
    assert all(each in known[kind] for kind, several in found.items() for each in several)
    assert (ledger.runs.get(run_id).state, ledger.runs.get(run_id).request_counts.done) == (state, ITEMS)
    runs = RecordedRuns(ledger=ledger, store=gateway.store)
    assert Summary(STRESS_TEST, run_id, None)(runs).counts["done"] == ITEMS
    ledger.close()


async def test_copies_have_sources_of_their_own(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("evaluation.load.recorded.VARIED", 70)
    ledger = new_ledger(tmp_path)
    run_id = await load_recorded(ledger, f"sqlite:///{tmp_path}/ledger.db", 150)
    items = list(ledger.items.of(run_id, Item))
    assert [item.ordinal for item in items] == list(range(150))
    assert len({item.id for item in items}) == 150
    assert max(sum(other.item_group == item.item_group for other in items) for item in items) <= 7
    ledger.close()


async def test_a_recorded_benchmark_has_the_form_that_a_worker_writes(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    run_id = await load_recorded_benchmark(ledger, f"sqlite:///{tmp_path}/ledger.db", 300)
    (tmp_path / "written").mkdir()
    async with fake_gateway(tmp_path / "written", ports=benchmark_services) as gateway:
        body = benchmark_body(await uploaded(gateway))
        written = (await gateway.http.post("/v1/shift-benchmarks", json=body)).json()["id"]
        await gateway.worker().work_off()
        known = {_without_names(form(each)) for each in gateway.ledger.items.recorded(written)}
    found = list(ledger.items.recorded(run_id))
    assert len(found) == ledger.runs.get(run_id).request_counts.done == 300
    assert {_without_names(form(each)) for each in found} <= known
    runs = RecordedRuns(ledger=ledger, store=gateway.store)
    assert Summary(SHIFT_BENCHMARK, run_id, OBJECT_PERCENTILE)(runs).counts["done"] == 300
    ledger.close()


OF_A_TIME = ("service_seconds", "began_at", "ended_at")


async def test_a_recorded_hunt_of_the_written_size_is_what_a_worker_writes(tmp_path: Path) -> None:
    written, other = [await written_hunt() for _ in range(2)]
    ledger = new_ledger(tmp_path)
    run_id = load_recorded_hunt(f"sqlite:///{tmp_path}/ledger.db", other, other.samples)
    found = [_apart(item._asdict(), run_id) for item in ledger.items.recorded(run_id)]
    names = found[0].keys()
    known = [
        _apart({name: row[name] for name in names}, written.run["id"]) for row in written.items
    ]  # fmt: skip
    assert found == known
    run = ledger.runs.get(run_id)
    assert run.resolved_config == written.run["config"]
    assert run.request_counts.total == len(known)
    assert violated(ledger, run_id) == []
    ledger.close()


def _apart(item: dict[str, Any], run_id: str) -> Any:
    """An item without times, which two runs never share, and with the run's name left out of ids."""
    if item["result"] is not None:
        left = {name: each for name, each in item["result"].items() if name not in OF_A_TIME}
        item = item | {"result": left}
    return json.loads(json.dumps(item).replace(run_id, "run"))


async def test_a_larger_recorded_hunt_has_the_written_images_again(tmp_path: Path) -> None:
    written = await written_hunt()
    samples = 3 * written.samples + 10
    ledger = new_ledger(tmp_path)
    run_id = load_recorded_hunt(f"sqlite:///{tmp_path}/ledger.db", written, samples)
    items = list(ledger.items.of(run_id, HuntItem))
    known = {json.dumps(form(each), sort_keys=True) for each in written.items}
    found = _rows(ledger, run_id)
    assert {json.dumps(form(each), sort_keys=True) for each in found} <= known
    images = [item for item in items if item.kind == "sample"]
    assert len(images) == samples
    assert len({(item.instruction.phase, item.label, item.instruction.hypothesis, item.slot)
                for item in images if item.instruction is not None}) == samples  # fmt: skip
    made = {item.id: item.result.image for item in images if item.result is not None}
    captions = [item for item in items if item.kind == "caption" and item.instruction is not None]
    assert captions
    assert all(
        made[str(item.instruction.sample)] == item.source_image for item in captions if item.instruction
    )
    assert violated(ledger, run_id) == []
    runs = RecordedRuns(ledger=ledger, store=BlobStore("memory://hunts"))
    summary = Summary(BUG_HUNT, run_id, None)(runs)
    assert summary.images == samples
    assert [bug.words for bug in summary.bugs if bug.state == "breaks"] == ["in the snow"]
    ledger.close()


def _rows(ledger: Ledger, run_id: str) -> list[dict[str, Any]]:
    with ledger._session.database.reading() as connection:
        query = select(schema.items).where(schema.items.c.run_id == run_id)
        return [dict(row) for row in connection.execute(query).mappings()]


def _without_names(item: Any) -> str:
    """The form of an item, whatever classifiers it names."""
    result = item[-1]
    answers = sorted({json.dumps(each, sort_keys=True) for each in result["predictions"].values()})
    return json.dumps([*item[:-1], {**result, "predictions": answers}], sort_keys=True)
