"""Every bad request returns problem+json with a code of the closed list; nothing is stored."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from counterpose_core.errors import error_classes
from counterpose_gateway.http import edge
from counterpose_gateway.ledger.datasets.datasets import Datasets
from counterpose_gateway.routes import runs
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import create_run
from fakes.problems import problem

ROOT = "/v1/stress-tests"
BODY = {"dataset": "demo", "classifiers": ["steady"], "seed": 3}
KEY = "a-key-of-enough-characters"


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    """One gateway for all tests: they check that none of these requests leaves a trace."""
    async with fake_gateway(tmp_path_factory.mktemp("gateway")) as opened:
        await opened.upload("demo", 1)
        yield opened


@pytest.mark.fault("B50", "T16")
@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/docs", 404, "not-found"),
        ("GET", "/v1/runs/", 404, "not-found"),
        ("GET", "/v1/../etc/passwd", 404, "not-found"),
        ("PUT", "/v1/datasets", 405, "method-not-allowed"),
        ("DELETE", ROOT, 405, "method-not-allowed"),
        ("GET", "/v1/runs/nobody", 404, "not-found"),
        ("GET", "/v1/runs/nobody/items", 404, "not-found"),
        ("GET", "/v1/runs/nobody/results", 404, "not-found"),
        ("GET", "/v1/runs/nobody/events", 404, "not-found"),
        ("GET", "/v1/runs/nobody/summary", 404, "not-found"),
        ("GET", "/v1/runs/nobody/report", 404, "not-found"),
        ("GET", "/v1/runs/nobody/wait", 404, "not-found"),
        ("POST", "/v1/runs/nobody/cancel", 404, "not-found"),
        ("POST", "/v1/runs/nobody/resume", 404, "not-found"),
        ("GET", "/v1/datasets/nobody", 404, "unknown-dataset"),
        ("GET", f"/v1/artifacts/{'0' * 64}.png", 404, "artifact-missing"),
        ("GET", "/v1/artifacts/..%2f..%2fetc%2fpasswd.png", 404, "not-found"),
        ("GET", "/v1/artifacts/secret.png", 422, "invalid-request"),
        ("GET", "/v1/runs?limit=0", 422, "invalid-request"),
        ("GET", "/v1/runs?limit=1001", 422, "invalid-request"),
        ("GET", "/v1/runs?after=tampered", 422, "invalid-request"),
        ("GET", "/v1/runs/{run}/wait?timeout=1e9", 422, "invalid-request"),
        ("GET", "/v1/runs/{run}/wait?timeout=nan", 422, "invalid-request"),
        ("GET", "/v1/runs/{run}/results?from=-1", 422, "invalid-request"),
    ],
)
async def test_an_unknown_address_returns_a_problem(
    gateway: FakeGateway, method: str, path: str, status: int, code: str
) -> None:
    # A missing run is reported before other errors.
    path = path.replace("{run}", create_run(gateway.ledger))
    problem(await gateway.http.request(method, path), status, code)


@pytest.mark.fault("B49")
@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b"\xff\xfe{}", b"\xef\xbb\xbf{}", b'"text"', b"[" * 100_000,
        b'{"seed": NaN}', b'{"a":' * 50_000, json.dumps({f"k{n}": n for n in range(2000)}).encode(),
    ],
)  # fmt: skip
async def test_an_invalid_body_returns_a_problem(gateway: FakeGateway, content: bytes) -> None:
    headers = {"content-type": "application/json"}
    found = problem(await gateway.http.post(ROOT, content=content, headers=headers), 422, "invalid-request")
    assert len(found.errors) <= 20


@pytest.mark.fault("B38", "B41", "B47")
@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"dataset": "nobody"}, 404, "unknown-dataset"),
        ({"dataset": "../../etc/passwd"}, 422, "invalid-request"),
        ({"dataset": "/etc/passwd"}, 422, "invalid-request"),
        ({"dataset": "empty"}, 422, "dataset-empty"),
        ({"classifiers": ["nobody"]}, 404, "unknown-model"),
        ({"classifiers": []}, 422, "invalid-request"),
        ({"classifiers": ["steady", "steady"]}, 422, "invalid-request"),
        ({"classifiers": ["local:../../etc"]}, 422, "invalid-request"),
        ({"classifiers": ["file:///etc/passwd"]}, 422, "invalid-request"),
        ({"classifiers": ["py:mymodel:predict"]}, 422, "invalid-request"),
        ({"edit_types": ["moon"]}, 422, "unknown-edit-type"),
        ({"edit_types": []}, 422, "invalid-request"),
        ({"max_edits_per_image": 0}, 422, "invalid-request"),
        ({"preset": "nobody"}, 422, "invalid-request"),
        ({"seed": 2**64}, 422, "invalid-request"),
        ({"seed": 1.5}, 422, "invalid-request"),
        ({"seed": "1"}, 422, "invalid-request"),
        ({"edit_typs": ["object"]}, 422, "invalid-request"),
    ],
)
async def test_an_impossible_stress_test_is_refused_and_not_stored(
    gateway: FakeGateway, changes: dict[str, Any], status: int, code: str
) -> None:
    await gateway.http.post("/v1/datasets", json={"name": "empty"})
    before = gateway.ledger.runs.page()
    problem(await gateway.http.post(ROOT, json=BODY | changes), status, code)
    assert gateway.ledger.runs.page() == before


@pytest.mark.fault("B51")
async def test_a_body_over_the_limit_is_refused_with_or_without_content_length(tmp_path: Path) -> None:
    async def unannounced() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b" " * 1000

    async with fake_gateway(tmp_path, max_body_bytes=2000) as gateway:
        for content in (b" " * 2001, unannounced()):
            answer = await gateway.http.post(ROOT, content=content)
            problem(answer, 413, "payload-too-large")
        lying = {"content-length": "9" * 400}
        problem(await gateway.http.post(ROOT, content=b"{}", headers=lying), 413, "payload-too-large")


@pytest.mark.fault("B22")
async def test_a_body_that_never_arrives_times_out(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def trickle() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    monkeypatch.setattr(edge, "BODY_SECONDS", 0.01)
    problem(await gateway.http.post(ROOT, content=trickle()), 408, "request-timeout")


async def test_an_unexpected_error_reveals_no_details(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(datasets: Datasets) -> None:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(Datasets, "all", fail)
    answer = await gateway.http.get("/v1/datasets")
    problem(answer, 500, "internal-error")
    assert "hunter2" not in answer.text


async def test_a_response_that_fails_midway_stays_truncated(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines(*arguments: object, **options: object) -> Iterator[str]:
        yield "a line\n"
        raise RuntimeError("a defect")

    run = (await gateway.http.post(ROOT, json=BODY)).json()
    monkeypatch.setattr(runs, "result_lines", lines)
    answer = await gateway.http.get(f"/v1/runs/{run['id']}/results")
    assert answer.text == "a line\n"
    gateway.ledger.runs.cancel(run["id"])


@pytest.mark.fault("B52", "T5")
@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", f"Basic {KEY}", f"Bearer {KEY}x", KEY])
async def test_only_health_is_available_without_a_valid_key(tmp_path: Path, given: str) -> None:
    async with fake_gateway(tmp_path, api_keys=["another-key-of-some-length", KEY]) as gateway:
        headers = {"authorization": given}
        answer = await gateway.http.get("/v1/datasets", headers=headers)
        assert problem(answer, 401, "unauthorized").retryable is False
        assert answer.headers["www-authenticate"] == "Bearer"
        assert (await gateway.http.get("/healthz", headers=headers)).status_code == 200
        problem(await gateway.http.get("/metrics", headers=headers), 401, "unauthorized")


async def test_a_valid_key_is_accepted_under_any_host_name(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, api_keys=[KEY], host="0.0.0.0") as gateway:
        headers = {"authorization": f"bearer {KEY}", "host": "counterpose.example"}
        assert (await gateway.http.get("/v1/datasets", headers=headers)).status_code == 200


@pytest.mark.parametrize(("host", "status"), [
    ("localhost:8080", 200), ("127.0.0.1", 200), ("[::1]:8080", 200), ("evil.example", 422), ("", 400),
])  # fmt: skip
async def test_without_keys_a_foreign_host_name_is_refused(
    gateway: FakeGateway, host: str, status: int
) -> None:
    answer = await gateway.http.get("/v1/datasets", headers={"host": host})
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("given", "kept"), [("my-id", True), ("x" * 129, False), ("tab\there", False), ("", False)]
)
async def test_a_valid_request_id_is_kept(gateway: FakeGateway, given: str, kept: bool) -> None:
    answer = await gateway.http.get("/healthz", headers={"x-request-id": given})
    assert (answer.headers["x-request-id"] == given) is kept
    assert answer.headers["x-request-id"]


async def test_every_code_has_an_error_status() -> None:
    assert all(400 <= error.status < 600 for error in error_classes().values())
