"""Invalid JSON, unknown addresses and unsupported methods are refused by name; nothing is stored."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from fakes.gateway import FakeGateway, fake_gateway
from fakes.problems import problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = "/v1/stress-tests"
BODY = {"dataset": "demo", "classifiers": ["steady"], "seed": 3}
GOOD = json.dumps(BODY)
JSON = {"content-type": "application/json"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    """One gateway for all tests: they check that none of these requests leaves a trace."""
    async with fake_gateway(tmp_path_factory.mktemp("gateway")) as opened:
        await opened.upload("demo", 1)
        yield opened


BODIES: dict[str, bytes] = {
    "a body cut off": GOOD[:-1].encode(),
    "a good body behind a byte order mark": b"\xef\xbb\xbf" + GOOD.encode(),
    "a good body in UTF-16": GOOD.encode("utf-16"),
    "a good body in UTF-16 without its mark": GOOD.encode("utf-16-le"),
    "a good body that names its seed twice": GOOD[:-1].encode() + b', "seed": 4}',
    "a good body and an object nested 100,000 deep": GOOD[:-1].encode() + b', "x": ' + b'[' * 10**5,
    "a good body and a million keys": GOOD[:-1].encode() + b', "k": 0' * 10**6 + b"}",
    "a good body and a seed of 5,000 digits": GOOD[:-2].encode() + b"9" * 5000 + b"}",
}  # fmt: skip


@pytest.mark.fault("B49")
@pytest.mark.parametrize("kind", BODIES)
async def test_a_request_in_invalid_json_is_refused_and_not_stored(gateway: FakeGateway, kind: str) -> None:
    before = gateway.ledger.runs.page()
    found = problem(await gateway.http.post(ROOT, content=BODIES[kind], headers=JSON), 422, "invalid-request")
    # Refused by the parser, before any validator sees a key.
    assert found.errors == []
    assert gateway.ledger.runs.page() == before


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_a_non_finite_number_is_refused_by_its_pointer(gateway: FakeGateway, number: str) -> None:
    content = f'{GOOD[:-1]}, "limit": {number}}}'.encode()
    found = problem(await gateway.http.post(ROOT, content=content, headers=JSON), 422, "invalid-request")
    assert [error.pointer for error in found.errors] == ["/limit"]


@pytest.mark.fault("B49")
async def test_images_in_invalid_json_add_nothing(gateway: FakeGateway) -> None:
    source = json.dumps(gateway.source("sled", 99))
    content = f'{{"sources": [{source}], "sources": []}}'.encode()
    answer = await gateway.http.post("/v1/datasets/demo/sources", content=content, headers=JSON)
    assert "repeats the key 'sources'" in problem(answer, 422, "invalid-request").detail
    assert len(gateway.ledger.datasets.sources("demo")) == 4


@pytest.mark.fault("B49")
async def test_an_error_names_at_most_twenty_unknown_fields(gateway: FakeGateway) -> None:
    unknown = {f"k{number}": number for number in range(900)}
    found = problem(await gateway.http.post(ROOT, json=BODY | unknown), 422, "invalid-request")
    assert len(found.errors) == 20


@pytest.mark.fault("B50")
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
async def test_an_unsupported_method_error_lists_the_allowed_ones(gateway: FakeGateway, method: str) -> None:
    for path, allowed in (("/v1/datasets", {"GET", "POST"}), ("/v1/classifiers", {"GET"})):
        answer = await gateway.http.request(method, path)
        problem(answer, 405, "method-not-allowed")
        assert set(answer.headers["allow"].split(", ")) <= allowed


@pytest.mark.fault("B50")
async def test_a_head_request_is_refused_without_a_traceback(gateway: FakeGateway) -> None:
    answer = await gateway.http.head("/v1/datasets")
    assert (answer.status_code, answer.headers["x-request-id"] != "") == (405, True)


@pytest.mark.fault("B50")
@pytest.mark.parametrize(
    "path",
    [
        "/v1/runs/",
        "/v1/datasets/",
        "/v1/datasets/demo/",
        "/v1//stress-tests",
        "/V1/stress-tests",
        "/v1/Stress-Tests",
        "/v1/runs/%2e%2e/%2e%2e/etc/passwd",
        "/v1/runs/x/nothing",
        "/v1/runs/x:nothing/y",
        "/v2/stress-tests",
        "/v1/stress-tests;x=1",
        "/v1\\stress-tests",
        "/v1/stress-tests%00",
        "/v1/stress-tests%ff",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_unknown_address_is_not_found_and_never_redirected(
    gateway: FakeGateway, method: str, path: str
) -> None:
    before = gateway.ledger.runs.page()
    # Sent as written: a client that normalises the path would request another address.
    url = gateway.http.base_url.copy_with(raw_path=path.encode())
    answer = await gateway.http.request(method, url, json=BODY if method == "POST" else None)
    problem(answer, 404, "not-found")
    assert "location" not in answer.headers
    assert gateway.ledger.runs.page() == before
