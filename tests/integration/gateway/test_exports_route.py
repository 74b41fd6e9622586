"""Exports over HTTP: complete, marked, written by the SDK, and read by other tools."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import datasets
import pytest
import pytest_asyncio

from counterpose import AsyncClient
from counterpose_core.contract.runs import Item
from counterpose_core.images.codecs import decode_image
from counterpose_gateway.exports.export import LAYOUTS, ExportLayout
from counterpose_gateway.methods.stress_test.export import counterfactual_records
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.steps.objectionable import OBJECTIONABLE
from counterpose_gateway.summaries.summaries import summary_of
from fakes.contexts import run_context
from fakes.exports import exported
from fakes.gateway import FakeGateway, fake_gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

BODY = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background", "domain"], "seed": 3,
        "max_edits_per_image": 2, "interventions": [{"removed": "", "added": "in the snow"}]}  # fmt: skip
SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def finished(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[FakeGateway, str]]:
    """A gateway with a stress test that has ended."""
    async with fake_gateway(tmp_path_factory.mktemp("finished")) as gateway:
        await gateway.upload("demo", 2)
        run = (await gateway.http.post("/v1/stress-tests", json=BODY)).json()["id"]
        await gateway.worker().work_off()
        yield gateway, run


def made(gateway: FakeGateway, run: str, *states: str) -> list[Item]:
    """The counterfactuals of a run in these states."""
    kinds = ("edit", "lance-r", "intervention")
    return [item for item in gateway.ledger.items.all(run) if item.kind in kinds and item.state in states]


def left_in(folder: Path) -> list[Path]:
    """The files of a folder."""
    return list(folder.iterdir())


async def export(finished: tuple[FakeGateway, str], folder: Path, **asked: Any) -> Path:
    """Let the SDK write an export."""
    gateway, run_id = finished
    run = await AsyncClient(http=gateway.http).stress_tests.get(run_id)
    return await run.export(folder, **asked)


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_every_kept_counterfactual_is_exported_with_its_pixels(
    finished: tuple[FakeGateway, str], tmp_path: Path, layout: ExportLayout
) -> None:
    gateway, run = finished
    folder = await export(finished, tmp_path / "out", layout=layout)
    kept = made(gateway, run, "done")
    assert kept
    pixels = {decode_image(gateway.store.get(item.result.image)).tobytes() for item in kept if item.result}
    found = [decode_image(png) for png in exported(folder, layout)]
    assert len(found) == len(kept)
    assert {each.tobytes() for each in found} == pixels


async def test_hugging_face_s_loader_reads_the_export(
    finished: tuple[FakeGateway, str], tmp_path: Path
) -> None:
    folder = await export(finished, tmp_path / "out")
    loaded = datasets.load_dataset("imagefolder", data_dir=str(folder), split="train")
    assert set(loaded["synthetic"]) == {True}
    assert set(loaded["digital_source_type"]) == {SOURCE_TYPE}
    assert set(loaded["kept"]) == {True}
    assert {"background", "domain"} <= set(loaded["shift"])


async def test_rows_have_scores_prompt_model_and_run(
    finished: tuple[FakeGateway, str], tmp_path: Path
) -> None:
    folder = await export(finished, tmp_path / "out")
    rows = [json.loads(line) for line in (folder / "metadata.jsonl").read_text().splitlines()]
    edits = [row for row in rows if row["image_source"] == "edit"]
    assert {"direction", "image_image", "truth steady", "truth_before steady"} <= edits[0]["scores"].keys()
    assert all("@" in row["model"] and row["prompt"] and row["run"] == finished[1] for row in rows)
    assert {row["shift"] for row in rows if row["image_source"] == "own edit"} == {"“in the snow” is added"}
    assert {row["image_source"] for row in rows} <= {"edit", "lance-r", "own edit"}


async def test_a_pair_tells_its_source_the_words_and_the_answers(
    finished: tuple[FakeGateway, str], tmp_path: Path
) -> None:
    gateway, run = finished
    folder = await export(finished, tmp_path / "out", layout="fiftyone")
    samples = json.loads((folder / "samples.json").read_bytes())["samples"]
    by_slice = {
        name: {each["group"]["_id"]["$oid"]: each for each in samples if each["group"]["name"] == name}
        for name in ("source", "counterfactual")
    }
    kept = {item.result.image: item for item in made(gateway, run, "done") if item.result}
    assert len(by_slice["counterfactual"]) == len(kept)
    for group, after in by_slice["counterfactual"].items():
        item, before = kept[after["artifact"]], by_slice["source"][group]
        assert item.result is not None
        assert before["artifact"] == item.source_image
        pixels = decode_image((folder / before["filepath"]).read_bytes())
        assert pixels.tobytes() == decode_image(gateway.store.get(item.source_image)).tobytes()
        assert after["caption"] == before["caption"] == item.result.caption
        assert after["added"] == " ".join(word for span in item.result.added for word in span.words)
        predicted = item.result.predictions["steady"].shown[0]
        answer = after["answer_steady"]
        assert (answer["label"], answer["confidence"]) == predicted
        assert before["answer_steady"]["label"] == item.result.original_predictions["steady"].answer
    assert {each["synthetic"] for each in by_slice["source"].values()} == {False}
    assert any(each["added"] for each in by_slice["counterfactual"].values())


async def test_the_card_reports_yields_and_drops(finished: tuple[FakeGateway, str], tmp_path: Path) -> None:
    card = (await export(finished, tmp_path / "out") / "README.md").read_text(encoding="utf-8")
    assert "Counterfactuals of demo" in card
    assert "accuracy drop of steady" in card
    assert "| direction |" in card


async def test_dropped_images_are_exported_only_on_request_and_by_reason(
    finished: tuple[FakeGateway, str],
) -> None:
    gateway, run_id = finished
    context = run_context(gateway.ledger, gateway.store)
    summary = summary_of(STRESS_TEST, run_id, None, context)
    kept, *_ = made(gateway, run_id, "done")
    dropped = kept.model_copy(update={"state": "filtered", "reason": "gate-direction"})
    unfit = kept.model_copy(update={"state": "filtered", "reason": OBJECTIONABLE})
    items = [kept, dropped, unfit]
    told = counterfactual_records(summary, items)
    assert [record.verdict for record in told] == ["kept"]
    told = counterfactual_records(summary, items, dropped=True)
    assert [record.verdict for record in told] == ["kept", "gate-direction"]


async def test_equal_exports_are_equal_bytes_and_end_with_the_card(
    finished: tuple[FakeGateway, str],
) -> None:
    gateway, run = finished
    answers = [await gateway.http.get(f"/v1/runs/{run}/export?layout=webdataset") for _ in range(2)]
    assert answers[0].headers["content-type"] == "application/x-tar"
    assert answers[0].content == answers[1].content
    with tarfile.open(fileobj=io.BytesIO(answers[0].content)) as tar:
        assert tar.getnames()[-1] == "README.md"


async def test_the_temporary_folder_is_empty_afterwards(
    finished: tuple[FakeGateway, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gateway, run = finished
    assert (await gateway.http.get(f"/v1/runs/{run}/export")).status_code == 200
    await asyncio.sleep(0)
    assert left_in(tmp_path) == []


async def test_a_run_without_kept_images_is_reported_as_empty(
    finished: tuple[FakeGateway, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gateway, _ = finished
    waiting = (await gateway.http.post("/v1/stress-tests", json=BODY | {"seed": 4})).json()["id"]
    answer = await gateway.http.get(f"/v1/runs/{waiting}/export")
    assert (answer.status_code, answer.json()["code"]) == (422, "dataset-empty")
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("asked", ["layout=zip", "dropped=maybe"])
async def test_an_unknown_layout_is_refused(finished: tuple[FakeGateway, str], asked: str) -> None:
    gateway, run = finished
    answer = await gateway.http.get(f"/v1/runs/{run}/export?{asked}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request")
