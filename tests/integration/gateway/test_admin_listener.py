"""The operators' listener: its paths answer there alone, and no key opens both listeners."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from counterpose_gateway.app import create_admin_app
from fakes.gateway import URL, FakeGateway, fake_gateway
from fakes.openapi_document import document
from fakes.problems import problem

API_KEY, ADMIN_KEY = "a-key-that-opens-the-api", "a-key-of-an-operator"
ADMIN_PATHS = ("/metrics", "/access-log", "/access-log?limit=3")
PUBLIC = [
    (method.upper(), path)
    for path, methods in document(with_metrics=False)["paths"].items()
    for method in methods
]
PAGE_PATHS = ["/", "/openapi.json", "/ui", "/ui/login", "/ui/static/pages.css", "/ui/runs/none"]


def key(whole: str) -> dict[str, str]:
    """The header that sends a key."""
    return {"authorization": f"Bearer {whole}"}


def is_nowhere(answer: httpx.Response) -> bool:
    """Whether an answer says that there is no such address on this listener."""
    return (answer.status_code, answer.json()["code"]) == (404, "not-found")


def admin_of(gateway: FakeGateway) -> httpx.AsyncClient:
    """A client of the operators' listener."""
    app = create_admin_app(gateway.app, gateway.settings)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=URL)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    settings: dict[str, Any] = {"api_keys": [API_KEY], "admin_keys": [ADMIN_KEY], "admin_port": 9090}
    async with fake_gateway(tmp_path, refused_keys_per_minute=0, **settings) as opened:
        yield opened


@pytest.mark.fault("T7", "T10")
async def test_no_admin_path_answers_on_the_public_listener(gateway: FakeGateway) -> None:
    for path in ADMIN_PATHS:
        for method in ("GET", "POST", "DELETE"):
            assert is_nowhere(await gateway.http.request(method, path, headers=key(API_KEY))), path
        problem(await gateway.http.get(path, headers=key(ADMIN_KEY)), 401, "unauthorized")
    assert "/metrics" not in (await gateway.http.get("/openapi.json", headers=key(API_KEY))).text


@pytest.mark.fault("T7", "T10")
async def test_no_public_path_answers_on_the_operators_listener(gateway: FakeGateway) -> None:
    assert len(PUBLIC) > 50
    async with admin_of(gateway) as admin:
        for method, path in [*PUBLIC, *(("GET", path) for path in PAGE_PATHS)]:
            assert is_nowhere(await admin.request(method, path, headers=key(ADMIN_KEY))), path
        for path in ADMIN_PATHS:
            assert (await admin.get(path, headers=key(ADMIN_KEY))).status_code == 200


@pytest.mark.fault("T7")
async def test_an_operators_key_alone_opens_it_and_it_tells_of_the_api(gateway: FakeGateway) -> None:
    made = await gateway.http.post("/v1/datasets", json={"name": "pets"}, headers=key(API_KEY))
    async with admin_of(gateway) as admin:
        for headers in ({}, key(API_KEY), key("cp_no")):
            for path in (*ADMIN_PATHS, "/ui", "/nowhere"):
                problem(await admin.get(path, headers=headers), 401, "unauthorized")
        [entry] = (await admin.get("/access-log", headers=key(ADMIN_KEY))).json()["entries"]
        told = (entry["holder"], entry["path"], entry["status"])
        assert told == ("settings", "/v1/datasets", made.status_code)
        series = (await admin.get("/metrics", headers=key(ADMIN_KEY))).text
        assert 'counterpose_requests_total{method="POST",route="/v1/datasets",status="201"} 1.0' in series
        problem(await admin.get("/access-log?limit=0", headers=key(ADMIN_KEY)), 422, "invalid-request")


async def test_without_a_port_of_their_own_metrics_are_beside_the_api(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        assert (await gateway.http.get("/metrics")).status_code == 200
        problem(await gateway.http.get("/access-log"), 404, "not-found")
