"""Deleted and expired datasets: nothing is left of them in rows, blobs, caches and logs."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from counterpose_core.blobs import BlobStore, cache_key
from counterpose_gateway.store.erasure import Erasure
from fakes.access_keys import new_access_key
from fakes.gateway import FakeGateway, fake_gateway
from fakes.problems import problem
from fakes.world import CLASSES

RUNS = "/v1/stress-tests"
BODY = {"dataset": "private", "classifiers": ["steady"], "edit_types": ["background"], "seed": 3}
CAPTION = "a photo of the xyzzy sled on the grass"
HOUR = 3600.0


class Clock:
    """Shows the time that a test sets."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def gateway(tmp_path: Path, clock: Clock) -> AsyncIterator[FakeGateway]:
    """A gateway whose ledger and store are files."""
    async with fake_gateway(tmp_path, clock, store=BlobStore(str(tmp_path / "store"))) as opened:
        yield opened


def erase(gateway: FakeGateway, clock: Clock, looks: int = 2) -> None:
    """Look, later than whatever was put is still on its way; a second time for what the first set free."""
    for _ in range(looks):
        clock.now += HOUR
        Erasure(gateway.ledger, gateway.store, clock=clock, grace_seconds=0.0).look()


async def add(gateway: FakeGateway, name: str, number: int = 1, **created: Any) -> str:
    """Make a dataset of one image; return the image's digest."""
    made = await gateway.http.post("/v1/datasets", json={"name": name, "classes": list(CLASSES)} | created)
    assert made.status_code == 201, made.text
    source = gateway.source("sled", number) | {"filename": "xyzzy.png", "caption": CAPTION}
    added = await gateway.http.post(f"/v1/datasets/{name}/sources", json={"sources": [source]})
    assert added.json()["added"] == 1
    return gateway.ledger.datasets.sources(name)[0].image


async def run_about(gateway: FakeGateway, name: str = "private") -> str:
    """Make an ended run about a dataset."""
    made = await gateway.http.post(RUNS, json=BODY | {"dataset": name})
    assert made.status_code == 202, made.text
    await gateway.worker().work_off()
    return str(made.json()["id"])


def traces(folder: Path, *marks: bytes) -> set[str]:
    """The files below a folder that hold one of the marks, in their name or their content."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder))
        for path in found
        for mark in marks
        if mark in path.read_bytes() or mark in str(path).encode()
    }


def blobs(folder: Path) -> list[str]:
    """The digests of all blobs of the store."""
    return [path.name for path in (folder / "store" / "blobs").rglob("*") if path.is_file()]


@pytest.mark.fault("T18")
async def test_nothing_of_a_deleted_dataset_and_its_run_is_left_on_the_disk(
    gateway: FakeGateway, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    image = await add(gateway, "private")
    stored = (tmp_path / "store" / "blobs" / image[:2] / image).read_bytes()
    run_id = await run_about(gateway)
    await gateway.http.get(f"/v1/runs/{run_id}/report")
    # As the services keep what they compute of an image.
    features = gateway.store.put(b"features of " + image.encode())
    gateway.store.remember("clip-image", cache_key(of=image), features, of=image)
    gateway.store.keep("inversion", cache_key(of=image), b"latents of " + stored, of=image)
    # The editor notes all that it makes of an image: most images of a sweep are named by no row.
    gateway.store.note_made(blobs(tmp_path), of=image)
    kept = gateway.store.put(b"another's")
    marks = (
        image.encode(),
        bytes.fromhex(image),
        stored[:200],
        b"xyzzy",
        CAPTION.encode(),
        features.encode(),
    )
    gateway.ledger.blobs.erased_from_log()
    before = traces(tmp_path, *marks)
    assert {path.split("/")[0] for path in before} >= {"store", "ledger.db"}
    made = [item["id"] for item in (await gateway.http.get(f"/v1/runs/{run_id}/items")).json()["items"]]
    assert made

    assert (await gateway.http.delete(f"/v1/runs/{run_id}")).status_code == 204
    assert (await gateway.http.delete("/v1/datasets/private")).status_code == 204
    problem(await gateway.http.get("/v1/datasets/private"), 404, "unknown-dataset")
    erase(gateway, clock, looks=3)
    assert traces(tmp_path, *marks) == set()
    assert gateway.store.exists(kept)
    assert blobs(tmp_path) == [kept]
    # Not those of the test's own client.
    told = [record.getMessage() for record in caplog.records if record.name != "httpx"]
    assert told
    assert not [text for text in told if "xyzzy" in text or image in text]


@pytest.mark.fault("T18")
async def test_an_image_stays_as_long_as_a_run_or_a_dataset_has_it(
    gateway: FakeGateway, clock: Clock
) -> None:
    image = await add(gateway, "private")
    assert await add(gateway, "other") == image
    run_id = await run_about(gateway)
    assert (await gateway.http.delete("/v1/datasets/private")).status_code == 204
    erase(gateway, clock)
    shown = await gateway.http.get(f"/v1/artifacts/{image}.png")
    assert shown.status_code == 200
    assert (await gateway.http.get(f"/v1/runs/{run_id}/report")).status_code == 200
    assert (await gateway.http.delete("/v1/datasets/other")).status_code == 204
    erase(gateway, clock)
    assert gateway.store.exists(image)
    results = (await gateway.http.get(f"/v1/runs/{run_id}/items?state=done")).text
    assert (await gateway.http.delete(f"/v1/runs/{run_id}")).status_code == 204
    erase(gateway, clock)
    assert not gateway.store.exists(image)
    assert image in results


@pytest.mark.fault("T18")
async def test_another_tenants_copy_of_an_image_stays(gateway: FakeGateway, clock: Clock) -> None:
    _, acme = new_access_key(gateway.ledger, tenant="acme")
    _, mine = new_access_key(gateway.ledger)
    images = set()
    for whole in (acme, mine):
        gateway.http.headers["authorization"] = f"Bearer {whole}"
        await gateway.http.post("/v1/datasets", json={"name": "private", "classes": list(CLASSES)})
        body = {"sources": [gateway.source("sled", 1)]}
        await gateway.http.post("/v1/datasets/private/sources", json=body)
        view = gateway.ledger.of("acme" if whole == acme else "default")
        images.add(view.datasets.sources("private")[0].image)
    (image,) = images
    assert (await gateway.http.delete("/v1/datasets/private")).status_code == 204
    erase(gateway, clock)
    assert gateway.store.exists(image)
    assert gateway.ledger.of("acme").datasets.sources("private")[0].image == image


@pytest.mark.fault("T18")
async def test_a_dataset_ends_at_its_time_but_not_under_a_run(gateway: FakeGateway, clock: Clock) -> None:
    image = await add(gateway, "private", expires_in=60)
    told = (await gateway.http.get("/v1/datasets/private")).json()
    assert told["expires_at"] is not None
    gateway.ledger.datasets.end("private", clock.now + 60)
    made = (await gateway.http.post(RUNS, json=BODY)).json()["id"]
    refused = problem(await gateway.http.delete("/v1/datasets/private"), 409, "dataset-not-ready")
    assert made in str(refused.detail)
    erase(gateway, clock)
    assert (await gateway.http.get("/v1/datasets/private")).status_code == 200
    await gateway.worker().work_off()
    erase(gateway, clock)
    problem(await gateway.http.get("/v1/datasets/private"), 404, "unknown-dataset")
    assert (await gateway.http.get("/v1/datasets")).json()["datasets"] == []
    # The run has it still.
    assert gateway.store.exists(image)
    # Its name is free.
    assert await add(gateway, "private") == image


@pytest.mark.fault("T18")
async def test_an_end_can_be_moved_and_taken_back(gateway: FakeGateway, clock: Clock) -> None:
    await add(gateway, "private", expires_in=600)
    path = "/v1/datasets/private"
    assert (await gateway.http.patch(path, json={"expires_in": None})).json()["expires_at"] is None
    erase(gateway, clock)
    later = (await gateway.http.patch(path, json={"expires_in": 86_400})).json()["expires_at"]
    assert (
        await gateway.http.post("/v1/datasets", json={"name": "private", "classes": list(CLASSES)})
    ).json()["expires_at"] == later
    for wrong in (0, 59, -1, "soon"):
        answer = await gateway.http.patch(path, json={"expires_in": wrong})
        assert problem(answer, 422, "invalid-request").errors[0].pointer == "/expires_in"
    problem(await gateway.http.patch("/v1/datasets/none", json={"expires_in": 60}), 404, "unknown-dataset")
    problem(await gateway.http.delete("/v1/datasets/none"), 404, "unknown-dataset")


@pytest.mark.fault("T18")
async def test_the_operator_says_how_long_a_dataset_is_kept_at_most(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, dataset_ttl_seconds=3600) as gateway:
        made = await gateway.http.post("/v1/datasets", json={"name": "plain"})
        assert made.json()["expires_at"] is not None
        longer = {"name": "long", "expires_in": 3601}
        refused = problem(await gateway.http.post("/v1/datasets", json=longer), 422, "invalid-request")
        assert "COUNTERPOSE_DATASET_TTL_SECONDS" in str(refused.detail)
        moved = await gateway.http.patch("/v1/datasets/plain", json={"expires_in": None})
        assert moved.json()["expires_at"] is not None


@pytest.mark.fault("T18")
async def test_a_blob_that_is_put_again_meanwhile_stays(gateway: FakeGateway, clock: Clock) -> None:
    image = await add(gateway, "private")
    assert (await gateway.http.delete("/v1/datasets/private")).status_code == 204
    clock.now += 2 * HOUR
    # The upload has stored its image and not yet recorded it.
    gateway.store.put(gateway.store.get(image))
    assert Erasure(gateway.ledger, gateway.store, clock=clock).look() == 0
    assert gateway.store.exists(image)
    # It is looked at again later.
    assert gateway.ledger.blobs.loose(before=clock.now, most=10) == [image]


@pytest.mark.fault("T18")
async def test_an_interrupted_deletion_is_gone_on_with(gateway: FakeGateway, clock: Clock) -> None:
    image = await add(gateway, "private")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("counterpose_gateway.ledger.datasets.deletions._delete_rest", lambda *_: None)
        gateway.ledger.datasets.delete("private")
    problem(await gateway.http.get("/v1/datasets/private"), 404, "unknown-dataset")
    refused = await gateway.http.post("/v1/datasets", json={"name": "private", "classes": list(CLASSES)})
    assert "is being deleted" in str(problem(refused, 409, "dataset-not-ready").detail)
    erase(gateway, clock)
    assert not gateway.store.exists(image)
    assert (
        await gateway.http.post("/v1/datasets", json={"name": "private", "classes": list(CLASSES)})
    ).status_code == 201
