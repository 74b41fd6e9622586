"""Exports for FiftyOne and Label Studio: pairs, answers and provenance as each tool's format has them.

FiftyOne 1.22 and label-studio-sdk 2.1 read these layouts when they were written; here their rules are held
without them, as FiftyOne needs a database and both are large.
"""

from __future__ import annotations

import io
import json
import tracemalloc
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from counterpose_core.contract.editor import GENERATED_KIND
from counterpose_core.images.codecs import decode_image
from counterpose_gateway.exports.export import ExportLayout, write_export
from counterpose_gateway.exports.fiftyone import field_names
from counterpose_gateway.exports.records import Record
from fakes.exports import CARD, exported, file_of_task, pairs, record, records
from fakes.store import FakeStore, image

LAYOUTS: tuple[ExportLayout, ...] = ("fiftyone", "label-studio")
each_layout = pytest.mark.parametrize("layout", LAYOUTS)
NAME = "timm:resnet50"
TYPES = {
    "StringField": str, "IntField": int, "BooleanField": bool, "FloatField": float, "ListField": list,
    "EmbeddedDocumentField": dict, "ObjectIdField": dict, "DictField": dict,
}  # fmt: skip


@pytest.fixture
def store() -> FakeStore:
    """An empty store."""
    return FakeStore()


def write(store: FakeStore, made: list[Record], folder: Path, layout: ExportLayout) -> Path:
    """Write an export."""
    write_export(made, folder, layout=layout, store=store, card=CARD)
    return folder


def samples_of(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """FiftyOne's document of the dataset, and its samples."""
    samples = json.loads((folder / "samples.json").read_bytes())["samples"]
    return json.loads((folder / "metadata.json").read_bytes()), samples


def tasks_of(folder: Path) -> list[dict[str, Any]]:
    """Label Studio's tasks."""
    return list(json.loads((folder / "tasks.json").read_bytes()))


def assert_declared(document: Any, fields: list[dict[str, Any]]) -> None:
    """Each field of a document is declared with the type of its value, as FiftyOne demands."""
    declared = {each["db_field"]: each for each in fields}
    for name, value in document.items():
        if name != "_cls" and value is not None:
            kind = declared[name]["ftype"].rpartition(".")[2]
            assert isinstance(value, TYPES[kind]), name
            if declared[name]["fields"]:
                assert_declared(value, declared[name]["fields"])


@pytest.mark.parametrize("paired", [True, False])
def test_every_field_of_a_sample_is_declared(store: FakeStore, tmp_path: Path, paired: bool) -> None:
    made = pairs(store) if paired else records(store)
    dataset, samples = samples_of(write(store, made, tmp_path / "out", "fiftyone"))
    assert dataset["media_type"] == ("group" if paired else "image")
    assert len(samples) == len(made) * (2 if paired else 1)
    for sample in samples:
        assert_declared(sample, dataset["sample_fields"])
    assert len({sample["_id"]["$oid"] for sample in samples}) == len(samples)


def test_a_group_is_a_counterfactual_and_its_source(store: FakeStore, tmp_path: Path) -> None:
    made = pairs(store)
    folder = write(store, made, tmp_path / "out", "fiftyone")
    dataset, samples = samples_of(folder)
    assert dataset["group_media_types"] == {"source": "image", "counterfactual": "image"}
    groups: dict[str, dict[str, Any]] = {}
    for sample in samples:
        groups.setdefault(sample["group"]["_id"]["$oid"], {})[sample["group"]["name"]] = sample
    assert len(groups) == len(made)
    for one, group in zip(made, groups.values(), strict=True):
        before, after = group["source"], group["counterfactual"]
        assert one.source is not None
        for sample, ref in ((before, one.source.image), (after, one.image)):
            assert sample["artifact"] == ref
            pixels = decode_image((folder / sample["filepath"]).read_bytes())
            assert (pixels == decode_image(store.get(ref))).all()
        assert (after["removed"], after["added"], after["verdict"]) == ("grass", "snow", one.verdict)
        assert (before["synthetic"], after["synthetic"]) == (False, True)
        assert before["answer_timm_resnet50"]["confidence"] == 0.9
        answer = one.answers[NAME]
        assert after["answer_timm_resnet50"]["label"] == answer.label
        assert after["score_truth_timm_resnet50"] == one.scores[f"truth {NAME}"]
        assert after["ground_truth"]["label"] == one.class_name
    assert dataset["info"]["classifiers"] == {"answer_timm_resnet50": NAME}
    assert len(list((folder / "data" / "_sources").iterdir())) == 1


def test_names_of_fields_are_plain_distinct_and_lasting() -> None:
    names = ["oip:http://x.y/z", "oip:http://x/y.z", "$where"]
    found = field_names("answer", names)
    assert found == field_names("answer", names)
    assert len(set(found.values())) == 3
    assert found["$where"] == "answer_where"
    assert all(name.replace("_", "a").isalnum() and name.islower() for name in found.values())


def test_a_task_shows_both_images_and_answers_that_its_interface_offers(
    store: FakeStore, tmp_path: Path
) -> None:
    made = pairs(store)
    folder = write(store, made, tmp_path / "out", "label-studio")
    view = ET.fromstring((folder / "label_config.xml").read_text(encoding="utf-8"))
    choices = {
        each.attrib["name"]: (each.attrib["toName"], {one.attrib["value"] for one in each})
        for each in view.iter("Choices")
    }
    shown = {each.attrib["name"]: each.attrib["value"].removeprefix("$") for each in view.iter("Image")}
    for one, task in zip(made, tasks_of(folder), strict=True):
        assert one.source is not None
        for name, ref in ((shown["image"], one.image), (shown["source"], one.source.image)):
            file = file_of_task(folder, task["data"][name])
            assert (decode_image(file.read_bytes()) == decode_image(store.get(ref))).all()
        [prediction] = task["predictions"]
        assert (prediction["model_version"], prediction["score"]) == (NAME, one.answers[NAME].probability)
        for region in prediction["result"]:
            of, offered = choices[region["from_name"]]
            assert (region["to_name"], region["type"]) == (of, "choices")
            assert set(region["value"]["choices"]) <= offered
        assert task["data"]["verdict"] == one.verdict
        assert task["data"]["source_artifact"] == one.source.image


def test_no_text_of_a_task_is_a_formula(store: FakeStore, tmp_path: Path) -> None:
    tasks = tasks_of(write(store, pairs(store), tmp_path / "out", "label-studio"))
    assert [task["data"]["class_name"] for task in tasks] == ["'=plate", "'=plate"]
    texts = [each for task in tasks for each in task["data"].values() if isinstance(each, str)]
    assert not [each for each in texts if each.startswith(("=", "+", "-", "@", "\t", "\r"))]


def test_a_task_without_a_source_shows_one_image(store: FakeStore, tmp_path: Path) -> None:
    folder = write(store, records(store), tmp_path / "out", "label-studio")
    view = ET.fromstring((folder / "label_config.xml").read_text(encoding="utf-8"))
    assert [each.attrib["name"] for each in view.iter("Image")] == ["image"]
    assert all("source" not in task["data"] and task["predictions"] == [] for task in tasks_of(folder))


@each_layout
def test_a_source_that_a_model_made_is_marked_and_a_photograph_is_not(
    store: FakeStore, tmp_path: Path, layout: ExportLayout
) -> None:
    made = pairs(store)
    assert made[0].source is not None
    ref = made[0].source.image
    for name, marked in (("photograph", False), ("generated", True)):
        if marked:
            store.remember(GENERATED_KIND, ref, ref)
        folder = write(store, made, tmp_path / name, layout)
        [source] = (folder / "data" / "_sources").iterdir()
        with Image.open(io.BytesIO(source.read_bytes())) as opened:
            assert ("synthetic" in opened.info) == marked
            assert json.loads(opened.info["counterpose-provenance"])["synthetic"] == marked


@each_layout
def test_review_layouts_are_streamed(store: FakeStore, tmp_path: Path, layout: ExportLayout) -> None:
    side, number = 128, 20
    made = [
        record(store, seed=seed, image=store.put(image("large", seed, size=side))) for seed in range(number)
    ]
    tracemalloc.start()
    write(store, made, tmp_path / "out", layout)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < number * side * side * 3 / 3
    assert len(list(exported(tmp_path / "out", layout))) == number
