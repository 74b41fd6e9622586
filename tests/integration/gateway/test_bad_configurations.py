"""A stress test asked for with values that cannot be: refused at the field's own place, and not stored."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from fakes.gateway import FakeGateway, fake_gateway
from fakes.problems import problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = "/v1/stress-tests"
BODY: dict[str, Any] = {"dataset": "demo", "classifiers": ["steady"], "seed": 3}
BILLION = 10**9


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    """One gateway for all: that none of these requests leaves a trace is what is tested."""
    async with fake_gateway(tmp_path_factory.mktemp("gateway")) as opened:
        await opened.upload("demo", 1)
        yield opened


async def refused(gateway: FakeGateway, body: dict[str, Any], status: int, code: str) -> list[str]:
    """The places that a refused request is told of, the first of them in the detail, too."""
    before = gateway.ledger.run_list()
    found = problem(await gateway.http.post(ROOT, json=body), status, code)
    assert gateway.ledger.run_list() == before
    assert found.detail.startswith(f"{found.errors[0].pointer}: ")
    assert found.retryable is False
    return [one.pointer for one in found.errors]


FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "a seed of -1": ({"seed": -1}, "/seed"),
    "a seed of 2^63": ({"seed": 2**63}, "/seed"),
    "a seed of 2^64": ({"seed": 2**64}, "/seed"),
    "a seed of 1.5": ({"seed": 1.5}, "/seed"),
    "a seed of 1.0": ({"seed": 1.0}, "/seed"),
    "a seed in words": ({"seed": "1"}, "/seed"),
    "a seed of true": ({"seed": True}, "/seed"),
    "no seed": ({"seed": None}, "/seed"),
    "steps of 0": ({"steps": 0}, "/steps"),
    "a guidance": ({"guidance": 7.5}, "/guidance"),
    "a resolution of 513": ({"resolution": 513}, "/resolution"),
    "thresholds of its own": ({"gate": {"direction": 2.0}}, "/gate"),
    "an unknown preset": ({"preset": "/etc"}, "/preset"),
    "an unknown selection": ({"selection": "best"}, "/selection"),
    "a mistyped field": ({"edit_typs": ["object"]}, "/edit_typs"),
    "a field of another case": ({"Seed": 4}, "/Seed"),
    "a field with a slash and a tilde": ({"a/b~c": 4}, "/a~1b~0c"),
    "an edit type twice": ({"edit_types": ["object", "object"]}, "/edit_types"),
    "no edit type": ({"edit_types": []}, "/edit_types"),
    "a classifier twice": ({"classifiers": ["steady", "steady"]}, "/classifiers"),
    "a number of edits of 0": ({"max_edits_per_image": 0}, "/max_edits_per_image"),
    "a number of edits of -1": ({"max_edits_per_image": -1}, "/max_edits_per_image"),
    "a number of edits of 2.5": ({"max_edits_per_image": 2.5}, "/max_edits_per_image"),
    "a limit of 0": ({"limit": 0}, "/limit"),
    "a limit of -1": ({"limit": -1}, "/limit"),
}


@pytest.mark.parametrize("kind", FIELDS)
async def test_a_value_that_cannot_be_is_refused_at_its_place_and_not_stored(
    gateway: FakeGateway, kind: str
) -> None:
    change, pointer = FIELDS[kind]
    assert await refused(gateway, BODY | change, 422, "invalid-request") == [pointer]


@pytest.mark.parametrize("wanted", ["moon", "Object", "", "object ", "placebo", 3, None, ["object"]])
async def test_an_edit_type_that_is_none_is_named_by_its_place(gateway: FakeGateway, wanted: object) -> None:
    body = BODY | {"edit_types": ["object", wanted]}
    assert await refused(gateway, body, 422, "unknown-edit-type") == ["/edit_types/1"]


async def test_of_several_mistakes_the_one_that_gives_the_code_is_told_first(gateway: FakeGateway) -> None:
    body = {"edit_types": ["moon"], "classifiers": ["steady"], "seed": 3}
    assert await refused(gateway, body, 422, "unknown-edit-type") == ["/edit_types/0", "/dataset"]


@pytest.mark.parametrize("field", ["limit", "max_edits_per_image"])
async def test_what_asks_for_a_billion_exceeds_the_quota_whatever_else_is_wrong(
    gateway: FakeGateway, field: str
) -> None:
    assert await refused(gateway, BODY | {field: BILLION}, 429, "quota-exceeded") == [f"/{field}"]
    worse = {field: BILLION, "dataset": "nobody", "edit_types": ["moon"], "seed": -1}
    assert (await refused(gateway, worse, 429, "quota-exceeded"))[0] == f"/{field}"


async def test_a_quota_is_not_something_that_waiting_mends(gateway: FakeGateway) -> None:
    answer = await gateway.http.post(ROOT, json=BODY | {"limit": BILLION})
    assert "retry-after" not in answer.headers


async def test_a_typo_within_a_picture_is_named_by_its_place(gateway: FakeGateway) -> None:
    sources = [gateway.source("sled", 7), gateway.source("sled", 8) | {"captoin": "a sled"}]
    answer = await gateway.http.post("/v1/datasets/demo/sources", content=json.dumps({"sources": sources}),
                                     headers={"content-type": "application/json"})  # fmt: skip
    found = problem(answer, 422, "invalid-request")
    assert [one.pointer for one in found.errors] == ["/sources/1/captoin"]
    assert len(gateway.ledger.sources("demo")) == 4
