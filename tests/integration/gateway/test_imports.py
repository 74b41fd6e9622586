"""Datasets imported from URLs: shards that a worker leases, reads as streams and records part by part."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import datasets
import pyarrow
import pyarrow.parquet
import pytest
import pytest_asyncio

from counterpose_core.contract.datasets import ImportCreate
from counterpose_gateway.imports import image_folder, parquet_files
from counterpose_gateway.imports import importer as importing
from counterpose_gateway.imports.importer import find_shards
from counterpose_gateway.records.imports import LeasedListing, LeasedShard
from fakes.gateway import FakeGateway, fake_gateway
from fakes.shards import png, sample, tar, write_files, write_index, write_shards

CLASSES = ["boat", "plate", "sled"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    folder = tmp_path_factory.mktemp("gateway")
    allowed = ("memory://", f"file://{folder}/allowed")
    async with fake_gateway(folder, import_from=allowed) as opened:
        yield opened


@pytest.fixture
def url(name: str) -> str:
    return f"memory://{name}"


async def ask(gateway: FakeGateway, name: str, **body: Any) -> dict[str, Any]:
    answer = await gateway.http.post(f"/v1/datasets/{name}/import", json=body)
    assert answer.status_code == 202, answer.text
    asked: dict[str, Any] = answer.json()
    return asked


async def finish(gateway: FakeGateway, name: str) -> dict[str, Any]:
    """Import all that waits, and return the dataset."""
    importer = gateway.importer()
    while (leased := await importer.lease()) is not None:
        await importer.work(leased)
    dataset: dict[str, Any] = (await gateway.http.get(f"/v1/datasets/{name}")).json()
    return dataset


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_pattern_of_shards_becomes_a_dataset(gateway: FakeGateway, name: str, url: str) -> None:
    pattern = write_shards(url, 3, 4, [0, 1, 2], CLASSES)
    asked = await ask(gateway, name, url=pattern)
    assert (asked["imported"]["state"], asked["digest"]) == ("listing", "")
    dataset = await finish(gateway, name)
    assert (dataset["n_sources"], dataset["classes"]) == (12, CLASSES)
    imported = dataset["imported"]
    assert (imported["state"], imported["shards"], imported["shards_done"]) == ("done", 3, 3)
    assert (imported["images"], imported["n_rejected"]) == (12, 0)
    labels = {source.filename: source.label for source in gateway.ledger.datasets.sources(name)}
    assert labels["shard-000001.tar/000005.png"] == "sled"


async def test_a_dataset_has_the_digest_of_the_same_images_uploaded(
    gateway: FakeGateway, name: str, url: str
) -> None:
    await ask(gateway, name, url=write_shards(url, 1, 4, ["boat", "sled"]))
    imported = await finish(gateway, name)
    other = f"{name}-uploaded"
    await gateway.http.post("/v1/datasets", json={"name": other})
    sources = [gateway.upload_of(png(number), ("boat", "sled")[number % 2]) for number in range(4)]
    await gateway.http.post(f"/v1/datasets/{other}/sources", json={"sources": sources})
    uploaded = (await gateway.http.get(f"/v1/datasets/{other}")).json()
    assert imported["digest"] == uploaded["digest"] != ""


async def test_nothing_is_planned_on_a_dataset_before_its_import_has_ended(
    gateway: FakeGateway, name: str, url: str
) -> None:
    await ask(gateway, name, url=write_shards(url, 2, 2, ["boat", "sled"]))
    test = {"dataset": name, "classifiers": ["steady"], "seed": 3}
    refused = await gateway.http.post("/v1/stress-tests", json=test)
    assert (refused.status_code, refused.json()["code"]) == (409, "dataset-not-ready")
    added = await gateway.http.post(
        f"/v1/datasets/{name}/sources", json={"sources": [gateway.upload_of(png(9), "boat")]}
    )
    assert (added.status_code, added.json()["code"]) == (409, "dataset-not-ready")
    assert not gateway.ledger.imports.has_ended(name)
    await finish(gateway, name)
    assert gateway.ledger.imports.has_ended(name)
    assert (await gateway.http.post("/v1/stress-tests", json=test)).status_code == 202


async def test_an_index_names_shards_beside_it_and_elsewhere(
    gateway: FakeGateway, name: str, url: str
) -> None:
    write_files(url, {"a.tar": tar(sample(1, "boat")), "elsewhere/b.tar": tar(sample(2, "sled"))})
    await ask(gateway, name, url=write_index(url, ["a.tar", f"{url}/elsewhere/b.tar"]))
    dataset = await finish(gateway, name)
    assert (dataset["imported"]["layout"], dataset["n_sources"]) == ("webdataset", 2)
    assert dataset["classes"] == ["boat", "sled"]


async def test_labels_and_captions_are_read_from_text_and_json(
    gateway: FakeGateway, name: str, url: str
) -> None:
    members = [
        ("a/1.jpg.png", png(1)),
        ("a/1.json", json.dumps({"label": 1, "caption": "a red sled"}).encode()),
        ("a/2.png", png(2)), ("a/2.txt", b"boat\n"),
        ("a/3.png", png(3)), ("a/3.cls", b"0"), ("a/3.txt", b"a small boat"), ("a/3.index", b"3"),
    ]  # fmt: skip
    shard = f"{write_files(url, {'one.tar': tar(members)})}/one.tar"
    await ask(gateway, name, url=shard, classes=["boat", "sled"])
    assert (await finish(gateway, name))["imported"]["n_rejected"] == 0
    told = [(source.label, source.caption) for source in gateway.ledger.datasets.sources(name)]
    assert told == [("sled", "a red sled"), ("boat", None), ("boat", "a small boat")]


async def test_a_folder_is_listed_in_parts_of_one_class_each(
    gateway: FakeGateway, name: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_folder, "FILES", 2)
    files = {f"boat/{number}.png": png(number) for number in range(5)}
    write_files(url, {**files, "n02690373/1.png": png(9), "n02690373/notes.txt": b"none", "read.me": b""})
    await ask(gateway, name, url=f"{url}/")
    dataset = await finish(gateway, name)
    assert (dataset["imported"]["layout"], dataset["imported"]["shards"]) == ("image-folder", 4)
    assert (dataset["n_sources"], dataset["classes"]) == (6, ["airliner", "boat"])


async def test_a_listing_that_was_broken_off_goes_on_behind_its_last_part(
    gateway: FakeGateway, name: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_folder, "FILES", 2)
    monkeypatch.setattr(importing, "SHARDS_AT_ONCE", 1)
    write_files(url, {f"{label}/{n}.png": png(n) for n, label in enumerate(["boat"] * 3 + ["sled"] * 3)})
    await ask(gateway, name, url=url)
    leased = gateway.ledger.imports.lease(seconds=30.0)
    assert isinstance(leased, LeasedListing)
    found = list(find_shards(leased, gateway.storage(), 100))
    gateway.ledger.imports.add_shards(leased, found[:2], last=False)
    gateway.ledger.imports.release(leased)
    dataset = await finish(gateway, name)
    assert (dataset["imported"]["shards"], dataset["n_sources"]) == (len(found), 6)


async def test_parquet_files_of_the_datasets_library_are_read(
    gateway: FakeGateway, name: str, tmp_path: Path, url: str
) -> None:
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["boat", "sled"])}
    )
    rows = {"image": [{"bytes": png(n), "path": None} for n in range(5)], "label": [0, 1, 0, 1, 1]}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "saved.parquet", batch_size=2)
    saved = (tmp_path / "saved.parquet").read_bytes()
    write_files(url, {"data/train-00000-of-00001.parquet": saved, "data/test-00000-of-00001.parquet": saved})
    await ask(gateway, name, url=url, layout="parquet", split="train")
    dataset = await finish(gateway, name)
    assert (dataset["n_sources"], dataset["classes"]) == (5, ["boat", "sled"])
    labels = [source.label for source in gateway.ledger.datasets.sources(name)]
    assert labels == ["boat", "sled", "boat", "sled", "sled"]


async def test_a_part_of_a_parquet_file_is_read_on_from_its_row(tmp_path: Path) -> None:
    table = pyarrow.table({"image": [png(n) for n in range(7)], "label": list("abcdefg")})
    pyarrow.parquet.write_table(table, tmp_path / "file.parquet", row_group_size=3)
    with (tmp_path / "file.parquet").open("rb") as opened:
        request = ImportCreate(url="file:///file.parquet")
        read = list(parquet_files.read_parquet(opened, 4, "file.parquet", None, request))
    assert [(each.source.filename, each.following) for each in read] == [
        (f"file.parquet/{row}", row + 1) for row in (4, 5, 6)
    ]


async def test_a_label_that_looks_like_another_is_refused_in_every_part(
    gateway: FakeGateway, name: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "PART", 1)
    members = [*sample(1, "sled"), *sample(2, "Sled"), *sample(3, "sled")]
    await ask(gateway, name, url=f"{write_files(url, {'one.tar': tar(members)})}/one.tar")
    dataset = await finish(gateway, name)
    assert (dataset["n_sources"], dataset["classes"]) == (2, ["sled"])
    assert [one["code"] for one in dataset["imported"]["rejected"]] == ["class-map-mismatch"]


async def test_a_class_that_another_worker_found_meanwhile_is_compared_again(
    gateway: FakeGateway, name: str, url: str
) -> None:
    await ask(gateway, name, url=f"{write_files(url, {'one.tar': tar(sample(1, 'sled'))})}/one.tar")
    listing = gateway.ledger.imports.lease(seconds=30.0)
    assert isinstance(listing, LeasedListing)
    found = list(find_shards(listing, gateway.storage(), 100))
    gateway.ledger.imports.add_shards(listing, found, last=True)
    shard = gateway.ledger.imports.lease(seconds=30.0)
    assert isinstance(shard, LeasedShard)
    assert not gateway.ledger.imports.record_part(shard, [], [], position=0, last=True, known=["boat"])
    assert gateway.ledger.imports.record_part(shard, [], [], position=0, last=True, known=[])


async def test_a_worker_imports_in_turn_with_the_items_of_runs(
    gateway: FakeGateway, name: str, url: str
) -> None:
    await gateway.upload(f"{name}-other", 1)
    test = {"dataset": f"{name}-other", "classifiers": ["steady"], "seed": 3}
    run = (await gateway.http.post("/v1/stress-tests", json=test)).json()
    await ask(gateway, name, url=write_shards(url, 2, 2, ["boat", "sled"]))
    await gateway.worker(concurrency=1, importer=gateway.importer()).work_off()
    assert gateway.ledger.runs.get(run["id"]).state == "completed"
    assert gateway.ledger.datasets.get(name).n_sources == 4


async def test_the_same_request_again_changes_nothing_and_another_one_is_refused(
    gateway: FakeGateway, name: str, url: str
) -> None:
    pattern = write_shards(url, 1, 2, ["boat", "sled"])
    await ask(gateway, name, url=pattern)
    await finish(gateway, name)
    assert (await ask(gateway, name, url=pattern))["imported"]["state"] == "done"
    for body in ({"url": pattern, "split": "test"}, {"url": f"{url}/other.tar"}):
        other = await gateway.http.post(f"/v1/datasets/{name}/import", json=body)
        assert (other.status_code, other.json()["code"]) == (422, "invalid-request")
