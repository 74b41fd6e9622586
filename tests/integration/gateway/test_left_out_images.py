"""What a folder holds beside its classes' images: hidden files are passed over, all else is named."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from counterpose_core.blobs import BlobStore
from counterpose_core.errors import DatasetEmpty, InvalidRequest
from counterpose_gateway.images.folder import read_folder
from counterpose_gateway.images.intake import register_folder
from counterpose_gateway.imports import image_folder
from counterpose_gateway.imports import importer as importing
from counterpose_gateway.ledger import Ledger
from fakes.gateway import FakeGateway, fake_gateway
from fakes.shards import png, write_files

NAMES = (
    "cat/1.png", "n02085620-Chihuahua/1.jfif", "cat/old/2.png", "cow/a/3.png", "4.png", "empty/notes.txt",
    ".ipynb_checkpoints/1.png", "__MACOSX/1.png", "cat/._1.png", "cat/5.tiff", "cat/.ipynb_checkpoints/6.png",
)  # fmt: skip
FILES = {name: png(number) for number, name in enumerate(NAMES)}
LEFT_OUT = {
    "cat/5.tiff": "unsupported-media",
    "4.png": "invalid-request",
    "empty/": "image-undecodable",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "photos"


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(f"memory://{tmp_path}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path_factory.mktemp("gateway"), import_from=("memory://",)) as opened:
        yield opened


def test_a_registered_folder_names_what_is_left_out(folder: Path, ledger: Ledger, store: BlobStore) -> None:
    register_folder("demo", folder, ledger, store)
    dataset = ledger.datasets.get("demo")
    assert (dataset.n_sources, dataset.classes) == (2, ["Chihuahua", "cat"])
    told = {one.filename: one.code for one in dataset.rejected}
    assert told == LEFT_OUT | {"cat/old": "invalid-request", "cow/a": "invalid-request"}


def test_a_folder_of_splits_is_refused_with_where_its_images_are(
    tmp_path: Path, ledger: Ledger, store: BlobStore
) -> None:
    (tmp_path / "all" / "train" / "cat").mkdir(parents=True)
    (tmp_path / "all" / "train" / "cat" / "1.png").write_bytes(png(1))
    with pytest.raises(DatasetEmpty, match="'train/cat': a folder below a class's folder is not read"):
        register_folder("demo", tmp_path / "all", ledger, store)


def test_a_loose_image_needs_a_label_and_is_not_called_as_the_folder(folder: Path) -> None:
    note = {"file_name": "4.png", "caption": "a hen", "group": "video-1"}
    (folder / "metadata.jsonl").write_text(json.dumps(note), encoding="utf-8")
    read = read_folder(folder)
    assert "photos" not in {source.label for source in read}
    assert "4.png" in {one.filename for one in read.left_out}
    (folder / "metadata.jsonl").write_text(json.dumps(note | {"label": "hen"}), encoding="utf-8")
    read = read_folder(folder)
    assert ("4.png", "hen", "video-1") in {(one.filename, one.label, one.group) for one in read}
    assert "4.png" not in {one.filename for one in read.left_out}


def test_labels_and_groups_find_their_images_or_are_refused(folder: Path) -> None:
    (folder / "metadata.csv").write_bytes(b"file_name, label,Group\r\ncat\\1.png, kitten, video-1\r\n")
    assert ("cat/1.png", "kitten", "video-1") in {
        (one.filename, one.label, one.group) for one in read_folder(folder)
    }
    (folder / "metadata.csv").write_text("file_name,label\ncat/9.png,kitten\n", encoding="utf-8")
    with pytest.raises(InvalidRequest, match=r"'cat/9\.png' has a note, but .* has no such image"):
        read_folder(folder)


def test_captions_that_nobody_asked_for_refuse_nothing(
    folder: Path, ledger: Ledger, store: BlobStore
) -> None:
    lines = [{"file_name": name, "caption": words} for name in ("cat/1.png", "cat/9.png") for words in "ab"]
    (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    register_folder("demo", folder, ledger, store)
    assert ledger.datasets.get("demo").n_sources == 2
    with pytest.raises(InvalidRequest, match=r"gives 'cat/1\.png' a second caption"):
        register_folder("captioned", folder, ledger, store, with_captions=True)


async def imported(gateway: FakeGateway, name: str, url: str) -> dict[str, Any]:
    """The dataset that comes of a folder at a URL."""
    answer = await gateway.http.post(f"/v1/datasets/{name}/import", json={"url": url})
    assert answer.status_code == 202, answer.text
    importer = gateway.importer()
    while (leased := await importer.lease()) is not None:
        await importer.work(leased)
    dataset: dict[str, Any] = (await gateway.http.get(f"/v1/datasets/{name}")).json()
    return dataset


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("parts", [1, 1000])
async def test_an_imported_folder_names_what_is_left_out(
    gateway: FakeGateway, name: str, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_folder, "FILES", parts)
    monkeypatch.setattr(importing, "SHARDS_AT_ONCE", parts)
    url = write_files(f"memory://{name}", FILES | {"metadata.csv": b"file_name,group\ncat/1.png,video-1\n"})
    dataset = await imported(gateway, name, url)
    assert (dataset["n_sources"], dataset["classes"]) == (2, ["Chihuahua", "cat"])
    told = {one["filename"]: one["code"] for one in dataset["imported"]["rejected"]}
    below = {"cat/old/": "invalid-request", "cow/a/": "invalid-request", "metadata.csv": "invalid-request"}
    assert told == LEFT_OUT | below


@pytest.mark.asyncio(loop_scope="module")
async def test_an_import_reads_the_folder_of_masks_or_says_what_of_it_is_of_no_image(
    gateway: FakeGateway, name: str
) -> None:
    files = {
        "cat/1.png": png(1), "cat/1.jpg": png(2), "cat/2.webp": png(3), "cat/3.png": png(4),
        "masks/cat/1.png": png(20), "masks/cat/2.png": png(20), "masks/cat/3.png": png(20, side=9),
        "masks/cat/9.png": png(20), "masks/1.png": png(20), "annotations.json": b"{}",
    }  # fmt: skip
    dataset = await imported(gateway, name, write_files(f"memory://{name}", files))
    assert dataset["classes"] == ["cat"]
    masked = {each.filename: each.mask is not None for each in gateway.ledger.datasets.sources(name)}
    assert masked == {"cat/1.png": True, "cat/1.jpg": False, "cat/2.webp": True}
    told = {one["filename"]: one["detail"] for one in dataset["imported"]["rejected"]}
    assert told.keys() == {"cat/3.png", "masks/cat/", "masks/1.png", "annotations.json"}
    assert "9 x 9 pixels" in told["cat/3.png"]
    assert "'9.png', one of 1 masks, is of no image" in told["masks/cat/"]
    assert "an import reads no outlines" in told["annotations.json"]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_folder_of_loose_images_alone_says_so(gateway: FakeGateway, name: str) -> None:
    dataset = await imported(gateway, name, write_files(f"memory://{name}", {"1.png": png(1)}))
    problem = dataset["imported"]["problem"]
    assert problem["code"] == "dataset-empty"
    assert "lies in no class's folder" in problem["detail"]
