"""Whatever a tenant has the store keep counts against what it may store, and `/v1/usage` tells it."""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import event

from counterpose_core.blobs import digest
from counterpose_core.errors import QuotaExceeded
from counterpose_gateway.images import intake
from counterpose_gateway.images.quota import Quotas
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.sources import LEAVING_SECONDS
from counterpose_gateway.records.tenants import DEFAULT_TENANT
from counterpose_gateway.settings import GatewaySettings
from counterpose_gateway.store.erasure import Erasure
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import Clock
from fakes.problems import problem
from fakes.shards import png, sample, tar, write_files
from fakes.world import CLASSES, fake_suite

MOST = 20_000
FILE = 6_000


@pytest.fixture
async def gateway(tmp_path: Path, clock: Clock) -> AsyncIterator[FakeGateway]:
    """A gateway whose tenants may store 20 kB."""
    async with fake_gateway(
        tmp_path, clock, max_stored_bytes=MOST, import_from=("memory://",), least_free_bytes=0
    ) as opened:
        yield opened


async def stored(gateway: FakeGateway) -> int:
    usage = (await gateway.http.get("/v1/usage")).json()
    assert usage["stored_bytes_quota"] == gateway.settings.max_stored_bytes
    found: int = usage["stored_bytes"]
    return found


async def send_tokens(gateway: FakeGateway, *numbers: int) -> httpx.Response:
    files = [
        {"class_name": f"class {number}", "content_base64": base64.b64encode(token(number)).decode()}
        for number in numbers
    ]
    return await gateway.http.post("/v1/token-files", json={"files": files})


def token(number: int) -> bytes:
    return bytes([number]) * FILE


async def upload(gateway: FakeGateway, *numbers: int, side: int = 40, **more: object) -> httpx.Response:
    await gateway.http.post("/v1/datasets", json={"name": "demo"})
    sources = [gateway.upload_of(png(number, side), "sled") | more for number in numbers]
    return await gateway.http.post("/v1/datasets/demo/sources", json={"sources": sources})


async def test_token_files_count_and_are_refused_before_they_are_stored(gateway: FakeGateway) -> None:
    for number in range(3):
        assert (await send_tokens(gateway, number)).status_code == 201
    assert await stored(gateway) == 3 * FILE
    refused = problem(await send_tokens(gateway, 3), 429, "quota-exceeded")
    assert f"would have {4 * FILE} bytes as stored, more than {MOST} (COUNTERPOSE_MAX_STORED_BYTES)" in (
        refused.detail
    )
    assert not gateway.store.exists(digest(token(3)))
    # What is kept already needs no room, and images have as little left.
    assert (await send_tokens(gateway, 2, 1)).status_code == 201
    assert await stored(gateway) == 3 * FILE
    problem(await upload(gateway, 1), 429, "quota-exceeded")


async def test_the_ledger_has_the_last_word_of_two_that_take_the_same_room(gateway: FakeGateway) -> None:
    own, check = gateway.ledger.of(DEFAULT_TENANT), Quotas.of(gateway.settings).check_kept
    for number in (1, 2):
        own.blobs.check_room({f"{number:064x}": 11_000}, check)
    own.blobs.keep({f"{1:064x}": 11_000}, check)
    with pytest.raises(QuotaExceeded, match="delete a dataset and wait an hour"):
        own.blobs.keep({f"{2:064x}": 11_000}, check)
    assert not own.blobs.holds(f"{2:064x}")
    assert await stored(gateway) == 11_000


async def test_generated_images_count_and_parallel_calls_share_the_room(tmp_path: Path, clock: Clock) -> None:
    async with fake_gateway(tmp_path, clock, max_stored_bytes=10_000_000) as gateway:
        await gateway.upload("demo", 3)
        made = await gateway.http.post("/v1/dataset-interfaces", json={"dataset": "demo", "seed": 5})
        await gateway.worker().work_off()
        before = await stored(gateway)
        asked = {"class_name": CLASSES[0], "n": 1, "seed": 1, "by_name": True}
        path = f"/v1/runs/{made.json()['id']}/generate"
        images = (await gateway.http.post(path, json=asked)).json()["images"]
        size = len(gateway.store.get(images[0]["image"]))
        held = await stored(gateway) - before - size
        assert held == 3 * fake_suite().editor.resolution ** 2
        # The room that was held while it was made is given back.
        clock.now += 700
        gateway.ledger.datasets.expire()
        assert await stored(gateway) == before + size
        own = gateway.ledger.of(DEFAULT_TENANT)
        own.blobs.reserve(10_000_000 - before - size - held, Quotas.of(gateway.settings).check_kept)
        assert (await gateway.http.post(path, json=asked)).status_code == 200
        refused = problem(await gateway.http.post(path, json=asked | {"seed": 2}), 429, "quota-exceeded")
        assert "COUNTERPOSE_MAX_STORED_BYTES" in refused.detail


async def test_a_dataset_that_ends_counts_until_its_images_are_erased(
    gateway: FakeGateway, clock: Clock
) -> None:
    assert (await upload(gateway, 1, 2)).json()["added"] == 2
    before = await stored(gateway)
    assert before == gateway.ledger.datasets.stored("demo").bytes > 0
    gateway.ledger.datasets.end("demo", clock.now + 60)
    clock.now += 61
    erasure = Erasure(gateway.ledger, gateway.store, clock=clock, grace_seconds=LEAVING_SECONDS)
    erasure.look()
    assert (await gateway.http.get("/v1/datasets/demo")).status_code == 404
    assert await stored(gateway) == before
    clock.now += LEAVING_SECONDS + 120
    erasure.look()
    assert await stored(gateway) == 0


async def test_filling_and_deleting_datasets_again_and_again_comes_to_an_end(gateway: FakeGateway) -> None:
    answers = list[int]()
    for number in range(6):
        answers.append((await upload(gateway, number)).status_code)
        await gateway.http.delete("/v1/datasets/demo")
    assert answers == [200] * 4 + [429] * 2
    assert await stored(gateway) <= MOST


async def test_nothing_is_stored_for_a_dataset_that_is_being_imported(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = write_files("memory://going", {"a.tar": tar(sample(1, "boat"))})
    await gateway.http.post("/v1/datasets/demo/import", json={"url": f"{url}/a.tar"})
    put = list[object]()
    monkeypatch.setattr(gateway.store, "put_packed", put.append)
    assert problem(await upload(gateway, 1), 409, "dataset-not-ready")
    assert put == []


async def test_images_that_are_refused_at_the_last_moment_count_until_they_are_erased(
    gateway: FakeGateway, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As another request takes the room between the first look and the last.
    monkeypatch.setattr(intake, "_room", lambda *_: None)
    problem(await upload(gateway, *range(6)), 429, "quota-exceeded")
    assert len(gateway.ledger.blobs.loose(before=clock.now, most=10)) == 6
    assert await stored(gateway) > MOST
    problem(await send_tokens(gateway, 1), 429, "quota-exceeded")
    # Sent again, the same images take no more.
    before = await stored(gateway)
    problem(await upload(gateway, *range(6)), 429, "quota-exceeded")
    assert await stored(gateway) == before


async def imported(gateway: FakeGateway, name: str, *samples: list[tuple[str, bytes]], **most: Any) -> None:
    url = write_files(f"memory://{name}", {"a.tar": tar(part for each in samples for part in each)})
    await gateway.http.post(f"/v1/datasets/{name}/import", json={"url": f"{url}/a.tar"})
    importer = gateway.importer(**most)
    while (leased := await importer.lease()) is not None:
        await importer.work(leased)


async def test_images_of_an_import_without_room_count_until_they_are_erased(
    gateway: FakeGateway, clock: Clock
) -> None:
    await imported(gateway, "one", sample(1, "sled"), sample(2, "sled"), max_dataset_images=1)
    assert gateway.ledger.datasets.stored("one").bytes == 0
    assert len(gateway.ledger.blobs.loose(before=clock.now, most=10)) == 2
    assert await stored(gateway) > 0


async def test_images_of_an_import_whose_label_looks_like_another_count_until_they_are_erased(
    gateway: FakeGateway, clock: Clock
) -> None:
    await imported(gateway, "two", sample(1, "sled"), sample(2, "sIed"), sample(3, "Sled"))
    own = gateway.ledger.datasets.stored("two")
    assert own.images == 1
    assert len(gateway.ledger.blobs.loose(before=clock.now, most=10)) == 2
    assert await stored(gateway) > 2 * own.bytes


async def test_masks_that_replace_each_other_count_until_they_are_erased(gateway: FakeGateway) -> None:
    answers = list[int]()
    for number in range(4, 12):
        mask = {"polygons": [[0, 0, 0, 30, 30, number]], "width": 40, "height": 40}
        answers.append((await upload(gateway, 1, outline=mask)).status_code)
    assert answers[:2] == [200, 200]
    assert answers[-1] == 429
    assert await stored(gateway) <= MOST


def test_what_is_stored_is_found_by_searches_and_quickly_with_100_000_rows(ledger: Ledger) -> None:
    own, quotas = ledger.of("acme"), Quotas.of(GatewaySettings())
    own.blobs.keep({f"{number:064x}": 1 for number in range(100_000)})
    for number in range(1_000):
        ledger.of("globex").datasets.create(f"demo-{number}", None)
    seen = list[tuple[str, Any]]()

    @event.listens_for(ledger._session.database.engine, "before_cursor_execute")
    def note(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        seen.append((statement, parameters))

    began = time.process_time()
    own.blobs.check_room({"f" * 64: 1}, quotas.check_kept)
    own.blobs.keep({"f" * 64: 1}, quotas.check_kept)
    own.blobs.reserve(1, quotas.check_kept)
    assert own.access.usage().stored_bytes == 100_002
    assert own.datasets.stored("none").all_bytes == 100_002
    assert time.process_time() - began < 1.0
    if ledger._session.database.is_sqlite:
        with ledger._session.database.reading() as connection:
            plans = [
                row[3]
                for sql, given in seen
                if sql.startswith("SELECT")
                for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", given)
            ]
        assert len(plans) > 8
        assert [plan for plan in plans if "SCAN" in plan and "CONSTANT ROW" not in plan] == []
