"""Exports: complete or absent, deterministic, every image marked and none changed."""

from __future__ import annotations

import builtins
import io
import json
import tarfile
import tracemalloc
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image, PngImagePlugin
from pydantic import ValidationError

from counterpose_core.errors import ArtifactMissing, Cancelled, DatasetEmpty, InvalidRequest, StorageFull
from counterpose_core.images.codecs import decode_image, encode_raw
from counterpose_gateway.exports.export import LAYOUTS, Export, ExportLayout, write_export
from counterpose_gateway.exports.images import ExportedImage
from counterpose_gateway.exports.layouts import parts
from counterpose_gateway.exports.records import Record
from fakes.exports import CARD, contents, exported, record, records, rows_of, scored
from fakes.store import FakeStore, image

each_layout = pytest.mark.parametrize("layout", LAYOUTS)
SHARDED: tuple[ExportLayout, ...] = ("parquet", "webdataset")
SMALL_SHARDS = 2000
XMP = "{http://iptc.org/std/Iptc4xmpExt/2008-02-29/}DigitalSourceType"
RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


def write(store: FakeStore, made: Any, target: Path, layout: ExportLayout, **told: Any) -> Export:
    return write_export(made, target, layout=layout, store=store, card=CARD, **told)


def texts(png: bytes) -> dict[str, str]:
    """What a PNG says of itself, as Pillow and not our own reader finds it."""
    with Image.open(io.BytesIO(png)) as opened:
        assert isinstance(opened, PngImagePlugin.PngImageFile)
        return {str(key): str(value) for key, value in opened.text.items()}


def source_type(png: bytes) -> str | None:
    packet = texts(png).get("XML:com.adobe.xmp")
    if packet is None:
        return None
    description = ET.fromstring(packet).find(f"{RDF}RDF/{RDF}Description")
    assert description is not None
    return description.get(XMP)


@pytest.mark.fault("T20")
@each_layout
def test_exported_pixels_equal_the_scored_pixels(
    store: FakeStore, tmp_path: Path, layout: ExportLayout
) -> None:
    made = records(store)
    assert write(store, made, tmp_path / "set", layout) == Export(tmp_path / "set", len(made))
    found = list(exported(tmp_path / "set", layout))
    assert len(found) == len(made)
    for png, pixels in zip(found, scored(store, made), strict=True):
        np.testing.assert_array_equal(decode_image(png), pixels)
        with Image.open(io.BytesIO(png)) as opened:
            np.testing.assert_array_equal(np.asarray(opened), pixels)


@pytest.mark.fault("T20")
@each_layout
def test_every_generated_image_is_marked_synthetic_with_its_provenance(
    store: FakeStore, tmp_path: Path, layout: ExportLayout
) -> None:
    made = records(store)
    write(store, made, tmp_path / "set", layout)
    for png, row in zip(exported(tmp_path / "set", layout), rows_of(made), strict=True):
        assert source_type(png) == "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
        said = texts(png)
        assert said["synthetic"] == "true"
        assert said["artifact"] == row["artifact"]
        assert json.loads(said["counterpose-provenance"]) == row


def test_edits_are_marked_and_photographs_are_not(store: FakeStore, tmp_path: Path) -> None:
    brought: dict[str, Any] = {"prompt": None, "seed": None, "model": None, "bundle": None, "scores": {}}
    made = [
        record(store, origin="edited", class_name="cup"),
        record(store, origin="photograph", image_source="retrieval", **brought),
    ]
    write(store, made, tmp_path / "set", "imagefolder")
    edit, photograph = exported(tmp_path / "set", "imagefolder")
    assert str(source_type(edit)).rsplit("/", 1)[1] == "compositeWithTrainedAlgorithmicMedia"
    assert source_type(photograph) is None
    assert "synthetic" not in texts(photograph)
    lines = (tmp_path / "set" / "metadata.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["synthetic"] for line in lines] == [True, False]
    assert "1 of the images is a photograph" in (tmp_path / "set" / "README.md").read_text(encoding="utf-8")


@each_layout
def test_the_same_records_give_identical_bytes(
    store: FakeStore, tmp_path: Path, layout: ExportLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store, records(store), tmp_path / "one", layout, shard_bytes=SMALL_SHARDS)
    monkeypatch.setattr("time.time", lambda: 4e9)
    write(store, iter(records(store)), tmp_path / "other", layout, shard_bytes=SMALL_SHARDS)
    assert contents(tmp_path / "one") == contents(tmp_path / "other")
    assert len(contents(tmp_path / "one")) > 3


@pytest.mark.parametrize("layout", SHARDED)
def test_a_shard_ends_after_the_image_that_fills_it(
    store: FakeStore, tmp_path: Path, layout: ExportLayout
) -> None:
    made = records(store)
    write(store, made, tmp_path / "whole", layout)
    sizes = [len(png) for png in exported(tmp_path / "whole", layout)]
    write(store, made, tmp_path / "set", layout, shard_bytes=max(sizes) + 1)
    shards, suffix = len(made) // 2, {"parquet": ".parquet", "webdataset": ".tar"}[layout]
    assert sorted(path.name for path in (tmp_path / "set" / "data").iterdir()) == [
        f"train-{number:05d}-of-{shards:05d}{suffix}" for number in range(shards)
    ]
    assert [len(png) for png in exported(tmp_path / "set", layout)] == sizes


@pytest.mark.parametrize(
    ("most_bytes", "most_images", "sizes"),
    [(20, None, [2, 2, 1]), (21, None, [3, 2]), (1, None, [1] * 5), (99, 2, [2, 2, 1]), (99, None, [5])],
)
def test_a_parquet_part_ends_when_it_is_full(
    most_bytes: int, most_images: int | None, sizes: list[int]
) -> None:
    made = [ExportedImage(str(number), {}, b"x" * 10) for number in range(5)]
    found = [list(part) for part in parts(iter(made), most_bytes=most_bytes, most_images=most_images)]
    assert [len(part) for part in found] == sizes
    assert [image for part in found for image in part] == made


def test_a_tar_contains_no_author_or_timestamp(store: FakeStore, tmp_path: Path) -> None:
    write(store, records(store), tmp_path / "set", "webdataset")
    with tarfile.open(next((tmp_path / "set" / "data").iterdir())) as tar:
        assert {(one.mtime, one.uid, one.gid, one.uname, one.gname, one.mode) for one in tar} == {
            (0, 0, 0, "", "", 0o644)
        }


def test_image_folders_are_grouped_by_shift_class_and_seed(store: FakeStore, tmp_path: Path) -> None:
    write(store, records(store), tmp_path / "set", "imagefolder")
    files = [path for path in contents(tmp_path / "set") if path.startswith("base/plate/")]
    # The same seeds from two sources.
    assert sorted(files) == [
        "base/plate/0-2.png",
        "base/plate/0.png",
        "base/plate/1-2.png",
        "base/plate/1.png",
    ]
    names = json.loads((tmp_path / "set" / "folders.json").read_text(encoding="utf-8"))
    assert names["shifts"] == {"in_the_snow": "in the snow", "base": "base"}
    assert sorted(names["classes"].values()) == ["Great Dane", "plate", "train"]
    assert {path.name for path in (tmp_path / "set" / "base").iterdir()} == set(names["classes"])


@pytest.mark.fault("T14")
@pytest.mark.parametrize("name", ["../../escaped", "/etc/escaped", "..", "a/b"])
@each_layout
def test_class_and_shift_names_cannot_escape_the_export_folder(
    store: FakeStore, tmp_path: Path, layout: ExportLayout, name: str
) -> None:
    before = set(tmp_path.rglob("*"))
    made = [record(store, class_name=name, shift=name)]
    write(store, made, tmp_path / "set", layout)
    assert all("set" in path.parts for path in set(tmp_path.rglob("*")) - before)
    if layout == "webdataset":
        with tarfile.open(next((tmp_path / "set" / "data").iterdir())) as tar:
            assert all(".." not in one.name and not one.name.startswith("/") for one in tar)


def test_an_empty_export_is_refused_and_leaves_no_files(store: FakeStore, tmp_path: Path) -> None:
    with pytest.raises(DatasetEmpty, match="nothing to export"):
        write(store, [], tmp_path / "set", "imagefolder")
    assert list(tmp_path.iterdir()) == []


@each_layout
def test_a_missing_image_is_named_and_no_files_are_left(
    store: FakeStore, tmp_path: Path, layout: ExportLayout
) -> None:
    gone = record(store, image="d" * 64, seed=41)
    with pytest.raises(ArtifactMissing, match=r"'d{64}'.*class 'plate', shift 'in the snow'.*seed 41"):
        write(store, [*records(store), gone], tmp_path / "set", layout)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault("F11")
def test_stored_bytes_that_are_not_an_image_are_named(store: FakeStore, tmp_path: Path) -> None:
    with pytest.raises(ArtifactMissing, match=r"is not an image.*seed 3"):
        write(store, [record(store, image=store.put(b"no image"), seed=3)], tmp_path / "set", "parquet")


@each_layout
def test_progress_reports_every_image_and_can_stop_the_export(
    store: FakeStore, tmp_path: Path, layout: ExportLayout
) -> None:
    made, told = records(store), list[tuple[int, int]]()
    write(store, made, tmp_path / "set", layout, progress=lambda *counts: told.append(counts))
    assert told == [(number, len(made)) for number in range(1, len(made) + 1)]

    def cancel(written: int, _: int) -> None:
        if written == 5:
            raise Cancelled

    with pytest.raises(Cancelled):
        write(store, made, tmp_path / "cancelled", layout, progress=cancel)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["set"]


def test_a_non_empty_folder_is_refused_and_left_unchanged(store: FakeStore, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "mine").write_text("mine", encoding="utf-8")
    with pytest.raises(InvalidRequest, match="set' already exists"):
        write(store, records(store), tmp_path / "set", "imagefolder")
    assert contents(tmp_path / "set").keys() == {"mine"}


def test_a_folder_filled_during_the_export_is_left_unchanged(store: FakeStore, tmp_path: Path) -> None:
    def fill(_: int, __: int) -> None:
        (tmp_path / "set").mkdir(exist_ok=True)
        (tmp_path / "set" / "mine").write_text("mine", encoding="utf-8")

    with pytest.raises(InvalidRequest, match="set' already exists"):
        write(store, records(store), tmp_path / "set", "webdataset", progress=fill)
    assert contents(tmp_path).keys() == {"set/mine"}


def test_an_empty_folder_is_used_and_missing_parents_are_created(store: FakeStore, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    for target in (tmp_path / "set", tmp_path / "not" / "yet" / "there"):
        write(store, records(store), target, "webdataset")
        assert (target / "README.md").is_file()


def test_two_exports_to_one_folder_do_not_mix(store: FakeStore, tmp_path: Path) -> None:
    def second(written: int, _: int) -> None:
        if written == 1:
            with pytest.raises(InvalidRequest, match="another process is writing"):
                write(store, records(store), tmp_path / "set", "imagefolder")

    made = records(store)
    write(store, made, tmp_path / "set", "imagefolder", progress=second)
    assert len(list((tmp_path / "set").rglob("*.png"))) == len(made)


@pytest.mark.fault("F10")
def test_a_full_disk_is_reported_and_leaves_no_files(store: FakeStore, tmp_path: Path) -> None:
    def full(_: int, __: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageFull, match="set"):
        write(store, records(store), tmp_path / "set", "webdataset", progress=full)
    assert list(tmp_path.iterdir()) == []


def test_a_shard_size_of_zero_is_refused(store: FakeStore, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="0 bytes"):
        write(store, records(store), tmp_path / "set", "webdataset", shard_bytes=0)


@pytest.mark.parametrize("layout", ["imagefolder", "webdataset"])
def test_images_are_streamed(store: FakeStore, tmp_path: Path, layout: ExportLayout) -> None:
    side, number = 128, 20
    made = [
        record(store, seed=seed, image=store.put(image("large", seed, size=side))) for seed in range(number)
    ]
    tracemalloc.start()
    write(store, iter(made), tmp_path / "set", layout)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < number * side * side * 3 / 3


def test_parquet_buffers_at_most_one_row_group(store: FakeStore, tmp_path: Path) -> None:
    one = store.put(encode_raw(np.zeros((1, 1, 3), np.uint8)))
    made = [record(store, seed=seed, image=one) for seed in range(250)]
    write(store, made, tmp_path / "set", "parquet")
    file = pyarrow.parquet.ParquetFile(next((tmp_path / "set" / "data").iterdir()))
    groups = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    assert groups == [100, 100, 50]


@each_layout
def test_exports_without_scores_have_no_score_column(
    store: FakeStore, tmp_path: Path, layout: ExportLayout
) -> None:
    write(store, [record(store, scores={})], tmp_path / "set", layout)
    (png,) = exported(tmp_path / "set", layout)
    assert "scores" not in json.loads(texts(png)["counterpose-provenance"])


def test_records_that_first_fill_a_column_are_moved_to_the_front(store: FakeStore, tmp_path: Path) -> None:
    scores: list[dict[str, float | None]] = [
        {"a": 1.0},
        {"a": 2.0, "b": None},
        {"b": 3.0},
        {"a": 4.0, "b": 5.0},
    ]
    made = [record(store, seed=seed, scores=found) for seed, found in enumerate(scores)]
    write(store, made, tmp_path / "set", "imagefolder")
    lines = (tmp_path / "set" / "metadata.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["seed"] for line in lines] == [0, 2, 1, 3]
    assert [json.loads(line)["scores"] for line in lines][:2] == [
        {"a": 1.0, "b": None},
        {"a": None, "b": 3.0},
    ]


def test_without_pyarrow_only_parquet_fails_and_names_the_extra(
    store: FakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return found(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InvalidRequest, match="install the extra 'exports'"):
        write(store, records(store), tmp_path / "parquet", "parquet")
    for layout in ("imagefolder", "webdataset"):
        write(store, records(store), tmp_path / layout, layout)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["imagefolder", "webdataset"]


@pytest.mark.parametrize("field", ["prompt", "seed", "model"])
def test_a_generated_image_without_provenance_is_refused(store: FakeStore, field: str) -> None:
    with pytest.raises(ValidationError, match=f"has no {field}"):
        record(store, **{field: None})


@pytest.mark.parametrize(
    "told",
    [
        {"image": "x"},
        {"class_name": ""},
        {"model": "sd-2"},
        {"scores": {"object": float("nan")}},
        {"seed": -1},
        {"shift": "\ud800"},
    ],
)
def test_a_record_with_empty_names_is_refused(store: FakeStore, told: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Record.model_validate(record(store).model_dump() | told)
