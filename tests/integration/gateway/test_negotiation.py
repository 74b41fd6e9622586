"""Accept is honoured on every route; Range is ignored, and every answer says that there are no ranges."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from fastapi.routing import APIRoute

from counterpose_gateway.app import bare_app
from counterpose_gateway.http.accept import media_types
from fakes.gateway import FakeGateway, fake_gateway
from fakes.problems import problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = "/v1/stress-tests"
BODY = {"dataset": "demo", "classifiers": ["steady"], "seed": 3}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path_factory.mktemp("gateway")) as opened:
        await opened.upload("demo", 1)
        yield opened


def routes(router: Any) -> Iterator[APIRoute]:
    """Every route of an application, also those of the routers that it includes."""
    for route in router.routes:
        if isinstance(route, APIRoute):
            yield route
        elif (included := getattr(route, "original_router", None)) is not None:
            yield from routes(included)


@pytest.mark.fault("B60")
async def test_every_route_refuses_what_nothing_can_satisfy_before_it_does_anything(
    gateway: FakeGateway,
) -> None:
    before = gateway.ledger.runs.page(), gateway.ledger.datasets.all()
    asked = 0
    for route in routes(bare_app()):
        if not media_types(route):
            continue
        path = route.path.replace(":segment", "").replace(":path", "").format_map(_Any())
        for method in sorted(route.methods or ()):
            headers = {"accept": "audio/ogg", "origin": "http://127.0.0.1:8080"}
            answer = await gateway.http.request(method, path, headers=headers)
            assert answer.status_code == 406, (method, path, answer.text)
            asked += 1
    assert asked > 60
    assert (gateway.ledger.runs.page(), gateway.ledger.datasets.all()) == before


class _Any(dict[str, str]):
    """A value for every parameter of a path."""

    def __missing__(self, name: str) -> str:
        return "a" * 64


@pytest.mark.fault("B60")
@pytest.mark.parametrize(
    ("path", "accept", "names"),
    [
        ("/v1/datasets", "text/html", "application/json"),
        ("/v1/datasets", "application/json;q=0", "application/json"),
        ("/metrics", "application/json", "text/plain"),
        ("/v1/runs/x/events", "application/json", "text/event-stream"),
        ("/v1/runs/x/results", "application/json", "application/jsonl"),
        ("/v1/runs/x/report", "application/json", "text/html"),
        (f"/v1/artifacts/{'a' * 64}.png", "image/jpeg", "image/png"),
    ],
)
async def test_a_refusal_names_the_media_types_of_the_address(
    gateway: FakeGateway, path: str, accept: str, names: str
) -> None:
    answer = await gateway.http.get(path, headers={"accept": accept})
    assert names in problem(answer, 406, "not-acceptable").detail


@pytest.mark.parametrize("accept", ["*/*", "application/json", "text/html, application/*;q=0.1", "", None])
async def test_an_answer_that_is_admitted_is_given(gateway: FakeGateway, accept: str | None) -> None:
    headers = {} if accept is None else {"accept": accept}
    assert (await gateway.http.get("/v1/datasets", headers=headers)).status_code == 200


async def test_errors_are_problem_documents_whatever_is_accepted(gateway: FakeGateway) -> None:
    answer = await gateway.http.get("/v1/runs/nobody", headers={"accept": "application/json"})
    problem(answer, 404, "not-found")


@pytest.mark.fault("B56")
@pytest.mark.parametrize(
    "range_",
    ["bytes=0-1", "bytes=5-1", "bytes=-1", f"bytes={'9' * 20}-", "items=0-1", "bytes=" + "0-1," * 3000],
)  # fmt: skip
async def test_a_range_is_ignored_and_every_answer_says_that_there_are_none(
    gateway: FakeGateway, range_: str
) -> None:
    run = (await gateway.http.post(ROOT, json=BODY)).json()["id"]
    image = gateway.ledger.datasets.sources("demo")[0].image
    for path in (f"/v1/runs/{run}/results", f"/v1/runs/{run}", f"/v1/artifacts/{image}.png"):
        whole = await gateway.http.get(path)
        part = await gateway.http.get(path, headers={"range": range_})
        assert (part.status_code, part.content) == (200, whole.content)
        assert part.headers["accept-ranges"] == "none"
    missing = await gateway.http.get("/v1/runs/nobody", headers={"range": range_})
    assert missing.status_code == 404


@pytest.mark.fault("B58")
async def test_a_run_is_cancelled_once(gateway: FakeGateway) -> None:
    run = (await gateway.http.post(ROOT, json=BODY)).json()["id"]
    cancelled = await gateway.http.post(f"/v1/runs/{run}/cancel")
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    again = await gateway.http.post(f"/v1/runs/{run}/cancel")
    assert run in problem(again, 409, "run-not-cancellable").detail
    assert (await gateway.http.get(f"/v1/runs/{run}")).json()["state"] == "cancelled"
    problem(await gateway.http.post(f"/v1/runs/{'f' * 32}/cancel"), 404, "not-found")


@pytest.mark.fault("B59")
async def test_a_run_that_goes_on_is_not_deleted(gateway: FakeGateway, tmp_path: Path) -> None:
    run = (await gateway.http.post(ROOT, json=BODY)).json()["id"]
    refused = await gateway.http.delete(f"/v1/runs/{run}")
    assert "cancel it" in problem(refused, 409, "run-not-deletable").detail
    assert (await gateway.http.get(f"/v1/runs/{run}/items")).status_code == 200
