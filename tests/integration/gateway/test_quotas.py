"""What users may store is bounded as it is stored, and the refusal names the limit and its setting."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from counterpose_core.blobs import BlobStore
from counterpose_core.errors import QuotaExceeded
from counterpose_gateway.images.intake import register_folder
from counterpose_gateway.images.quota import Quotas
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.sources import NewSource
from counterpose_gateway.settings import GatewaySettings
from fakes.gateway import FakeGateway, fake_gateway
from fakes.problems import problem


def flat(number: int, side: int = 400) -> bytes:
    """A small file that is a large image: one colour, `3 * side**2` bytes when it is decoded."""
    buffer = io.BytesIO()
    Image.new("RGB", (side, side), (number, 0, 0)).save(buffer, "WEBP", lossless=True)
    return buffer.getvalue()


def uploads(*numbers: int) -> dict[str, object]:
    return {
        "sources": [
            {"filename": f"{number}.webp", "label": "sled",
             "content_base64": base64.b64encode(flat(number)).decode()}
            for number in numbers
        ]
    }  # fmt: skip


async def post(gateway: FakeGateway, *numbers: int, name: str = "demo") -> dict[str, object]:
    answer = await gateway.http.post(f"/v1/datasets/{name}/sources", json=uploads(*numbers))
    found: dict[str, object] = answer.json()
    return found


def test_a_small_file_of_a_large_image_stays_small_on_disk(tmp_path: Path, ledger: Ledger) -> None:
    folder = tmp_path / "images" / "sled"
    folder.mkdir(parents=True)
    for number in range(4):
        (folder / f"{number}.webp").write_bytes(flat(number, side=2000))
    store = BlobStore(str(tmp_path / "store"))
    register_folder("demo", folder.parent, ledger, store)
    stored = sum(path.stat().st_size for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert stored == ledger.datasets.stored("demo").bytes < 10_000


@pytest.mark.parametrize(
    ("setting", "limit", "accepted"),
    [("max_dataset_images", 3, 3), ("max_images", 3, 3), ("max_dataset_bytes", 200, None),
     ("max_stored_bytes", 200, None)],
)  # fmt: skip
async def test_images_beyond_a_quota_are_refused_by_its_setting_and_not_stored(
    tmp_path: Path, setting: str, limit: int, accepted: int | None
) -> None:
    quota: dict[str, Any] = {setting: limit}
    async with fake_gateway(tmp_path, **quota) as gateway:
        await gateway.http.post("/v1/datasets", json={"name": "demo"})
        answer = await gateway.http.post("/v1/datasets/demo/sources", json=uploads(*range(12)))
        body = answer.json()
        assert answer.status_code == 200
        assert 0 < body["added"] == 12 - len(body["rejected"]) == (accepted or body["added"])
        assert {one["code"] for one in body["rejected"]} == {"quota-exceeded"}
        assert f"COUNTERPOSE_{setting.upper()}" in body["rejected"][0]["detail"]
        assert str(limit) in body["rejected"][0]["detail"]
        stored = gateway.ledger.datasets.stored("demo")
        assert (stored.bytes if "bytes" in setting else stored.images) <= limit
        # Every image refused is a refused request, and what is known already needs no room.
        refused = await gateway.http.post("/v1/datasets/demo/sources", json=uploads(50))
        assert f"COUNTERPOSE_{setting.upper()}" in problem(refused, 429, "quota-exceeded").detail
        again = await gateway.http.post("/v1/datasets/demo/sources", json=uploads(0))
        assert (again.status_code, again.json()["added"]) == (200, 0)
        kept = {source.image for source in gateway.ledger.datasets.sources("demo")}
        assert sum(gateway.store.exists(source) for source in kept) == len(kept) == body["added"]


async def test_a_quota_of_all_datasets_counts_each(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, max_images=3) as gateway:
        for name in ("one", "two"):
            await gateway.http.post("/v1/datasets", json={"name": name})
        assert (await post(gateway, 1, 2, name="one"))["added"] == 2
        assert (await post(gateway, 1, 2, name="two"))["added"] == 1


async def test_datasets_beyond_their_number_are_refused_and_known_ones_answered(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, max_datasets=2) as gateway:
        for name in ("one", "two", "one"):
            assert (await gateway.http.post("/v1/datasets", json={"name": name})).status_code == 201
        refused = await gateway.http.post("/v1/datasets", json={"name": "three"})
        assert "COUNTERPOSE_MAX_DATASETS" in problem(refused, 429, "quota-exceeded").detail
        assert len(gateway.ledger.datasets.all()) == 2


def test_the_ledger_has_the_last_word_when_two_requests_take_the_same_room(ledger: Ledger) -> None:
    quotas = Quotas.of(GatewaySettings(max_dataset_bytes=100))
    ledger.datasets.create("demo", None)
    first, second = (
        NewSource(image=f"{number:064x}", label="sled", filename=f"{number}.png", caption=None,
                  width=8, height=8, stored=60)
        for number in (1, 2)
    )  # fmt: skip
    assert ledger.datasets.add("demo", [first], check=quotas.check) == 1
    with pytest.raises(QuotaExceeded, match="COUNTERPOSE_MAX_DATASET_BYTES"):
        ledger.datasets.add("demo", [second], check=quotas.check)
    assert ledger.datasets.add("demo", [first], check=quotas.check) == 0
    stored = ledger.datasets.stored("demo")
    assert (stored.images, stored.bytes, stored.all_images, stored.all_bytes) == (1, 60, 1, 60)


def test_a_folder_beyond_the_quota_makes_no_dataset(tmp_path: Path, ledger: Ledger) -> None:
    folder = tmp_path / "images" / "sled"
    folder.mkdir(parents=True)
    (folder / "a.webp").write_bytes(flat(1))
    quotas = Quotas.of(GatewaySettings(max_stored_bytes=1))
    store = BlobStore(str(tmp_path / "store"))
    with pytest.raises(QuotaExceeded, match="COUNTERPOSE_MAX_STORED_BYTES"):
        register_folder("demo", folder.parent, ledger, store, quotas=quotas)
    assert ledger.datasets.all() == []
    assert list((tmp_path / "store").rglob("?" * 64)) == []
