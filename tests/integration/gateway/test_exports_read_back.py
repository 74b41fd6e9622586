"""Each export format is read by its own library, offline, with equal pixels and metadata."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from counterpose_core import torchvision_operators  # isort: split

import datasets
import numpy as np
import pytest
import torchvision.datasets
import webdataset
from huggingface_hub import DatasetCard

from counterpose_gateway.exports.export import LAYOUTS, ExportLayout, write_export
from counterpose_gateway.exports.records import Record
from fakes.exports import CARD, record, records, rows_of, scored
from fakes.store import FakeStore

SMALL_SHARDS = 3000
assert torchvision_operators


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("an export is read by a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


def write(store: FakeStore, made: list[Record], target: Path, layout: ExportLayout) -> Path:
    write_export(made, target, layout=layout, store=store, card=CARD, shard_bytes=SMALL_SHARDS)
    return target


def load(tmp_path: Path, *named: str, **told: Any) -> datasets.Dataset:
    """The only split that Hugging Face's library finds."""
    loaded = datasets.load_dataset(*named, cache_dir=str(tmp_path / "cache"), **told)
    assert list(loaded) == ["train"]
    return loaded["train"]


def assert_same(loaded: datasets.Dataset, store: FakeStore, made: list[Record]) -> None:
    """Check that every row and every scored pixel is read back, in the order of the records."""
    assert [{name: row[name] for name in row if name != "image"} for row in loaded] == rows_of(made)
    for row, pixels in zip(loaded, scored(store, made), strict=True):
        assert row["image"].mode == "RGB"
        np.testing.assert_array_equal(np.asarray(row["image"]), pixels)


def test_hugging_face_s_imagefolder_reads_an_image_folder(store: FakeStore, tmp_path: Path) -> None:
    made = records(store)
    folder = write(store, made, tmp_path / "set", "imagefolder")
    assert_same(load(tmp_path, "imagefolder", data_dir=str(folder)), store, made)


def test_hugging_face_s_parquet_reads_the_shards_as_images(store: FakeStore, tmp_path: Path) -> None:
    made = records(store)
    folder = write(store, made, tmp_path / "set", "parquet")
    assert len(list((folder / "data").iterdir())) > 2
    loaded = load(tmp_path, "parquet", data_files=str(folder / "data" / "*.parquet"))
    assert isinstance(loaded.features["image"], datasets.Image)
    assert_same(loaded, store, made)


@pytest.mark.parametrize("layout", ["imagefolder", "parquet"])
def test_the_folder_loads_alone_because_its_card_names_the_data(
    store: FakeStore, tmp_path: Path, layout: ExportLayout
) -> None:
    made = records(store)
    assert_same(load(tmp_path, str(write(store, made, tmp_path / "set", layout))), store, made)


def test_hugging_face_s_webdataset_reads_the_tars(store: FakeStore, tmp_path: Path) -> None:
    made = records(store)
    loaded = load(tmp_path, str(write(store, made, tmp_path / "set", "webdataset")))
    assert [row["json"] for row in loaded] == rows_of(made)
    for row, pixels in zip(loaded, scored(store, made), strict=True):
        np.testing.assert_array_equal(np.asarray(row["png"]), pixels)


# The library closes its files only on garbage collection.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_webdataset_reads_the_tars(store: FakeStore, tmp_path: Path) -> None:
    made = records(store)
    folder = write(store, made, tmp_path / "set", "webdataset")
    shards = sorted(str(path) for path in (folder / "data").iterdir())
    assert len(shards) > 2
    samples = list(webdataset.WebDataset(shards, shardshuffle=False).decode("rgb8").to_tuple("png", "json"))
    assert [row for _, row in samples] == rows_of(made)
    for (pixels, _), expected in zip(samples, scored(store, made), strict=True):
        np.testing.assert_array_equal(pixels, expected)


def test_torchvision_reads_each_shift_of_an_image_folder_as_classes(store: FakeStore, tmp_path: Path) -> None:
    made = records(store)
    folder = write(store, made, tmp_path / "set", "imagefolder")
    found = torchvision.datasets.ImageFolder(str(folder / "in_the_snow"))
    assert len(found.classes) == 3
    read = {(found.classes[target], np.asarray(image).tobytes()) for image, target in found}
    in_the_snow = [one for one in made if one.shift == "in the snow"]
    assert {pixels for _, pixels in read} == {pixels.tobytes() for pixels in scored(store, in_the_snow)}
    plates = [one for one in in_the_snow if one.class_name == "plate"]
    assert {pixels for folder_name, pixels in read if folder_name == "plate"} == {
        pixels.tobytes() for pixels in scored(store, plates)
    }


@pytest.mark.parametrize("name", ["test", "in the validation set", "dev 2"])
def test_a_class_or_shift_named_like_a_split_loses_no_image(
    store: FakeStore, tmp_path: Path, name: str
) -> None:
    made = [record(store, class_name=name), record(store, shift=name), record(store)]
    folder = write(store, made, tmp_path / "set", "imagefolder")
    assert_same(load(tmp_path, "imagefolder", data_dir=str(folder)), store, made)


def test_early_records_may_lack_fields_of_later_ones_in_a_long_set(store: FakeStore, tmp_path: Path) -> None:
    # The reader takes the types of the columns from the first ten megabytes.
    long = {"x" * 100_000: 0.5}
    made = [record(store, seed=seed, bundle=None, scores=long) for seed in range(110)]
    made.append(record(store, seed=0, scores={"object": 0.25}))
    folder = write(store, made, tmp_path / "set", "imagefolder")
    assert (folder / "metadata.jsonl").stat().st_size > 10 << 20
    loaded = load(tmp_path, "imagefolder", data_dir=str(folder))
    read = [(row["seed"], row["bundle"], row["scores"]["object"]) for row in loaded.remove_columns("image")]
    assert read[:2] == [(0, "", None), (0, "c" * 64, 0.25)]
    assert read[2:] == [(seed, "", None) for seed in range(1, 110)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_hub_reads_the_card(store: FakeStore, tmp_path: Path, layout: ExportLayout) -> None:
    folder = write(store, records(store), tmp_path / "set", layout)
    card = DatasetCard.load(folder / "README.md")
    assert card.data.pretty_name == CARD.title
    assert "synthetic" in card.data.tags
    assert card.data.license is None
