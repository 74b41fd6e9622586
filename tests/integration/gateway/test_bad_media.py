"""Mislabelled or compressed bodies are refused before they are parsed or inflated."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from fakes.bad_files import IMAGE
from fakes.gateway import FakeGateway, fake_gateway
from fakes.problems import problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

SOURCE = {"filename": "a.png", "label": "sled", "content_base64": base64.b64encode(IMAGE).decode()}
BODY = json.dumps({"sources": [SOURCE]}).encode()
ADDRESS = "/v1/datasets/demo/sources"
PART = b'--x\r\ncontent-disposition: form-data; name="sources"; filename="a.png"\r\n\r\n' + IMAGE + b"\r\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    """One gateway for all tests: none of their requests leaves a trace in it."""
    async with fake_gateway(tmp_path_factory.mktemp("gateway")) as opened:
        await opened.http.post("/v1/datasets", json={"name": "demo"})
        yield opened


async def sent(gateway: FakeGateway, content: bytes, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await gateway.http.post(ADDRESS, content=content, headers=named)
    assert gateway.ledger.datasets.sources("demo") == []
    return answer


@pytest.mark.fault("B17")
@pytest.mark.parametrize(
    "media",
    [
        "image/png", "text/plain", "text/plain; charset=utf-8", "application/octet-stream", "application/xml",
        "application/x-www-form-urlencoded", "", "json", "application/json, text/plain", "x" * 5000,
    ],
)  # fmt: skip
async def test_a_body_with_another_content_type_is_refused(gateway: FakeGateway, media: str) -> None:
    answer = await sent(gateway, BODY, content_type=media)
    problem(answer, 415, "unsupported-media")
    assert len(answer.content) < 1000


@pytest.mark.fault("B17")
async def test_a_body_without_a_content_type_is_refused(gateway: FakeGateway) -> None:
    problem(await sent(gateway, BODY), 415, "unsupported-media")


@pytest.mark.fault("B17")
async def test_an_image_sent_as_json_is_an_invalid_request(gateway: FakeGateway) -> None:
    problem(await sent(gateway, IMAGE, content_type="application/json"), 422, "invalid-request")


MULTIPART: dict[str, tuple[str, bytes]] = {
    "without a boundary": ("multipart/form-data", PART + b"--x--\r\n"),
    "with an empty boundary": ("multipart/form-data; boundary=", PART + b"--x--\r\n"),
    "whose end is missing": ("multipart/form-data; boundary=x", PART),
    "of 10,000 parts": ("multipart/form-data; boundary=x", PART * 10_000 + b"--x--\r\n"),
    "with one field twice": ("multipart/form-data; boundary=x", PART * 2 + b"--x--\r\n"),
}


@pytest.mark.fault("B20")
@pytest.mark.parametrize("kind", MULTIPART)
async def test_a_multipart_form_is_refused(gateway: FakeGateway, kind: str) -> None:
    media, content = MULTIPART[kind]
    problem(await sent(gateway, content, content_type=media), 415, "unsupported-media")


BLANKS = b" " * 50_000_000
PACKED: dict[str, bytes] = {
    "gzip": gzip.compress(BLANKS, 1),
    "GZIP": gzip.compress(BODY),
    "deflate": zlib.compress(BLANKS, 1),
    "br": b"\x8b\x03\x80{}\x03",
    "zstd": b"\x28\xb5\x2f\xfd" + b"\0" * 16,
    "gzip, gzip": gzip.compress(gzip.compress(BLANKS, 1), 1),
    "x" * 5000: BODY,
}


@pytest.mark.fault("B21")
@pytest.mark.parametrize("encoding", PACKED)
async def test_a_compressed_body_is_refused_without_inflating_it(gateway: FakeGateway, encoding: str) -> None:
    headers = {"content_type": "application/json", "content_encoding": encoding}
    answer = await sent(gateway, PACKED[encoding], **headers)
    problem(answer, 415, "unsupported-media")
    assert len(answer.content) < 1000


async def test_plain_json_is_accepted_under_every_json_media_type(gateway: FakeGateway) -> None:
    for media in ("application/json", "Application/JSON; charset=utf-8", "application/vnd.counterpose+json"):
        headers = {"content-type": media, "content-encoding": "identity"}
        answer = await gateway.http.post("/v1/datasets", content=b'{"name": "demo"}', headers=headers)
        assert answer.status_code == 201


async def test_a_request_without_a_body_needs_no_content_type(gateway: FakeGateway) -> None:
    problem(await gateway.http.post("/v1/runs/nobody/cancel"), 404, "not-found")
