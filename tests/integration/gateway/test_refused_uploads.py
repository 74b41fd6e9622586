"""Uploads without a usable image are refused by name and pointer, and nothing is stored."""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncIterator

import fsspec
import httpx
import pytest
import pytest_asyncio

from counterpose_core.blobs import BlobStore
from counterpose_core.errors import StorageFull, error_classes
from fakes.bad_files import BAD, BAD_FILES, IMAGE
from fakes.gateway import FakeGateway, fake_gateway
from fakes.problems import problem

pytestmark = pytest.mark.asyncio(loop_scope="module")
TEXT = base64.b64encode(IMAGE).decode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    """One gateway for all tests: each has its own dataset."""
    async with fake_gateway(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def dataset(gateway: FakeGateway) -> str:
    """An empty dataset that no other test uses."""
    name = f"demo-{uuid.uuid4().hex}"
    await gateway.http.post("/v1/datasets", json={"name": name})
    return name


def upload(content: bytes | str, **changes: str) -> dict[str, str]:
    text = content if isinstance(content, str) else base64.b64encode(content).decode()
    return {"filename": "a.png", "label": "sled", "content_base64": text} | changes


async def sent(gateway: FakeGateway, dataset: str, *sources: dict[str, str]) -> httpx.Response:
    return await gateway.http.post(f"/v1/datasets/{dataset}/sources", json={"sources": sources})


def stored(gateway: FakeGateway) -> list[str]:
    found: list[str] = fsspec.filesystem("memory").find(gateway.store.root)
    return found


@pytest.mark.fault("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B9", "B10", "B11", "B12")
@pytest.mark.parametrize("kind", BAD)
async def test_an_upload_of_one_bad_file_is_refused_with_its_code(
    gateway: FakeGateway, dataset: str, kind: str
) -> None:
    content, code = BAD[kind]
    before = stored(gateway)
    answer = await sent(gateway, dataset, upload(content))
    found = problem(answer, error_classes()[code].status, code)
    assert [(one.pointer, one.code) for one in found.errors] == [("/sources/0/content_base64", code)]
    assert "'a.png'" in found.detail
    assert (gateway.ledger.datasets.sources(dataset), stored(gateway)) == ([], before)


@pytest.mark.fault("B16")
@pytest.mark.parametrize("named", ["a.png", "a.jpg", "a.JPEG", "a.webp"])
async def test_a_file_of_another_type_with_an_image_name_is_refused_as_its_type(
    gateway: FakeGateway, dataset: str, named: str
) -> None:
    for content, code in (BAD_FILES["B9"] | BAD_FILES["B11"]).values():
        problem(await sent(gateway, dataset, upload(content, filename=named)), 415, code)


NO_BASE64: dict[str, str] = {
    "a blank before it": f" {TEXT}",
    "a line end behind it": f"{TEXT}\n",
    "lines of 76 letters": "\n".join(TEXT[start : start + 76] for start in range(0, len(TEXT), 76)),
    "a tab in it": f"{TEXT[:40]}\t{TEXT[40:]}",
    "padding missing": base64.b64encode(IMAGE + b"\0").decode().rstrip("="),
    "padding too much": f"{TEXT}====",
    "padding in its midst": f"{TEXT[:40]}=={TEXT[42:]}",
    "a letter too many": f"{TEXT}A",
    "a foreign alphabet": "_-_-" + TEXT[4:],
    "letters beyond ASCII": "é" + TEXT[1:],
    "a data: URL": f"data:image/png;base64,{TEXT}",
    "a data: URL of a huge type": f"data:{'x' * 1_000_000};base64,{TEXT}",
    "a data: URL without an image": "data:,",
    "an address": "https://example.org/a.png",
}


@pytest.mark.fault("B18", "B19")
@pytest.mark.parametrize("kind", NO_BASE64)
async def test_text_that_is_not_base64_is_refused(gateway: FakeGateway, dataset: str, kind: str) -> None:
    before = stored(gateway)
    answer = await sent(gateway, dataset, upload(NO_BASE64[kind]))
    found = problem(answer, 422, "image-undecodable")
    assert [one.pointer for one in found.errors] == ["/sources/0/content_base64"]
    assert len(answer.content) < 2000
    assert (gateway.ledger.datasets.sources(dataset), stored(gateway)) == ([], before)


@pytest.mark.fault("B18")
async def test_base64_of_40_megabytes_is_too_large_a_body(gateway: FakeGateway, dataset: str) -> None:
    content = b'{"sources": [{"filename": "a", "label": "b", "content_base64": "' + b"A" * 40_000_000
    address, headers = f"/v1/datasets/{dataset}/sources", {"content-type": "application/json"}
    answer = await gateway.http.post(address, content=content, headers=headers)
    problem(answer, 413, "payload-too-large")


@pytest.mark.fault("B18")
async def test_base64_of_an_oversized_image_is_refused_by_its_pointer(
    gateway: FakeGateway, dataset: str
) -> None:
    answer = await sent(gateway, dataset, upload("A" * 30_000_001))
    assert problem(answer, 422, "invalid-request").errors[0].pointer == "/sources/0/content_base64"
    assert len(answer.content) < 2000


async def test_several_kinds_of_bad_files_are_all_listed_in_the_error(
    gateway: FakeGateway, dataset: str
) -> None:
    sources = [upload(content, filename=f"{number}.png") for number, (content, _) in enumerate(BAD.values())]
    found = problem(await sent(gateway, dataset, *sources), 422, "invalid-request")
    assert [one.code for one in found.errors] == [code for _, code in BAD.values()]
    assert [one.pointer for one in found.errors] == [
        f"/sources/{number}/content_base64" for number in range(len(BAD))
    ]
    alike = [upload(content) for content, _ in BAD_FILES["B6"].values()]
    assert len(problem(await sent(gateway, dataset, *alike), 413, "image-too-large").errors) == len(alike)


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"label": "moon"}, "class-map-mismatch", "/sources/1/label"),
        ({"label": "sled\x00"}, "invalid-request", "/sources/1/label"),
        ({"caption": "a sl\u200bed"}, "invalid-request", "/sources/1/caption"),
        ({"filename": "../a.png"}, "invalid-request", "/sources/1/filename"),
        ({"content_base64": ""}, "image-undecodable", "/sources/1/content_base64"),
    ],
)
async def test_a_source_refused_along_with_a_good_one_is_reported_by_its_pointer(
    gateway: FakeGateway, changes: dict[str, str], code: str, pointer: str
) -> None:
    name = f"demo-{uuid.uuid4().hex}"
    await gateway.http.post("/v1/datasets", json={"name": name, "classes": ["sled"]})
    answer = (await sent(gateway, name, upload(IMAGE), upload(IMAGE) | changes)).json()
    assert answer["added"] == 1
    assert [(one["code"], one["pointer"]) for one in answer["rejected"]] == [(code, pointer)]


async def test_a_full_store_refuses_the_upload_without_blaming_an_image(
    gateway: FakeGateway, dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(store: BlobStore, image: object) -> None:
        raise StorageFull("no room")

    with monkeypatch.context() as patched:
        patched.setattr(BlobStore, "put_packed", put)
        found = problem(await sent(gateway, dataset, upload(IMAGE)), 507, "storage-full")
    assert found.retryable
    assert gateway.ledger.datasets.sources(dataset) == []


async def test_a_refused_upload_is_checked_again_under_the_same_key(
    gateway: FakeGateway, dataset: str
) -> None:
    address, headers = f"/v1/datasets/{dataset}/sources", {"idempotency-key": uuid.uuid4().hex}
    body = {"sources": [upload(b"no image")]}
    for _ in "12":
        problem(await gateway.http.post(address, json=body, headers=headers), 422, "image-undecodable")
