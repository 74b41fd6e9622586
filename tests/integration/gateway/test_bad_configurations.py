"""Stress tests with invalid values are refused with a pointer to the field, and not stored."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
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
    """One gateway for all tests: they check that none of these requests leaves a trace."""
    async with fake_gateway(tmp_path_factory.mktemp("gateway")) as opened:
        await opened.upload("demo", 1)
        yield opened


async def refused(gateway: FakeGateway, body: dict[str, Any], status: int, code: str) -> list[str]:
    """The pointers in the answer to a refused request; the first is also in its detail."""
    before = gateway.ledger.runs.page()
    found = problem(await gateway.http.post(ROOT, json=body), status, code)
    assert gateway.ledger.runs.page() == before
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
    "a limit in words": ({"limit": "5"}, "/limit"),
    "a limit of 5.0": ({"limit": 5.0}, "/limit"),
    "a truth value in digits": ({"confirm": 0}, "/confirm"),
    "a truth value in words": ({"confirm": "no"}, "/confirm"),
    "the smallest share": ({"confirm_share": 5e-324}, "/confirm_share"),
}


@pytest.mark.fault("B35", "B36", "B37", "B38", "B39")
@pytest.mark.parametrize("kind", FIELDS)
async def test_an_invalid_value_is_refused_by_its_pointer_and_not_stored(
    gateway: FakeGateway, kind: str
) -> None:
    change, pointer = FIELDS[kind]
    assert await refused(gateway, BODY | change, 422, "invalid-request") == [pointer]


@pytest.mark.fault("B38")
@pytest.mark.parametrize("wanted", ["moon", "Object", "", "object ", "placebo", 3, None, ["object"]])
async def test_an_unknown_edit_type_is_reported_by_its_pointer(gateway: FakeGateway, wanted: object) -> None:
    body = BODY | {"edit_types": ["object", wanted]}
    assert await refused(gateway, body, 422, "unknown-edit-type") == ["/edit_types/1"]


@pytest.mark.fault("B38")
async def test_the_error_that_sets_the_code_is_listed_first(gateway: FakeGateway) -> None:
    body = {"edit_types": ["moon"], "classifiers": ["steady"], "seed": 3}
    assert await refused(gateway, body, 422, "unknown-edit-type") == ["/edit_types/0", "/dataset"]


@pytest.mark.fault("B39")
@pytest.mark.parametrize("field", ["limit", "max_edits_per_image"])
async def test_a_request_for_a_billion_exceeds_the_quota_despite_other_errors(
    gateway: FakeGateway, field: str
) -> None:
    assert await refused(gateway, BODY | {field: BILLION}, 429, "quota-exceeded") == [f"/{field}"]
    worse = {field: BILLION, "dataset": "nobody", "edit_types": ["moon"], "seed": -1}
    assert (await refused(gateway, worse, 429, "quota-exceeded"))[0] == f"/{field}"


@pytest.mark.fault("B39")
async def test_a_quota_error_has_no_retry_after(gateway: FakeGateway) -> None:
    answer = await gateway.http.post(ROOT, json=BODY | {"limit": BILLION})
    assert "retry-after" not in answer.headers


@pytest.mark.fault("B38")
async def test_a_misspelt_field_of_an_image_is_reported_by_its_pointer(gateway: FakeGateway) -> None:
    sources = [gateway.source("sled", 7), gateway.source("sled", 8) | {"captoin": "a sled"}]
    answer = await gateway.http.post("/v1/datasets/demo/sources", content=json.dumps({"sources": sources}),
                                     headers={"content-type": "application/json"})  # fmt: skip
    found = problem(answer, 422, "invalid-request")
    assert [one.pointer for one in found.errors] == ["/sources/1/captoin"]
    assert len(gateway.ledger.datasets.sources("demo")) == 4


@pytest.mark.fault("T6")
@pytest.mark.parametrize(
    "field",
    ["id", "state", "kind", "created_at", "request_counts", "resolved_config", "parent"],
)
async def test_a_field_that_only_the_server_sets_is_refused(gateway: FakeGateway, field: str) -> None:
    assert await refused(gateway, BODY | {field: "mine"}, 422, "invalid-request") == [f"/{field}"]


@pytest.mark.fault("B39")
async def test_a_run_with_too_many_items_exceeds_the_quota_despite_other_errors(
    tmp_path: Path,
) -> None:
    async with fake_gateway(tmp_path, max_items_per_run=30) as gateway:
        await gateway.upload("demo", 1)
        fits = {"max_edits_per_image": 4, "lance_r_edits_per_image": 1}
        assert (await gateway.http.post(ROOT, json=BODY | fits)).status_code == 202
        for wrong in ({}, {"classifiers": ["nobody"]}, {"preset": "nobody"}):
            body = BODY | {"max_edits_per_image": 5} | wrong
            found = problem(await gateway.http.post(ROOT, json=body), 429, "quota-exceeded")
            assert found.errors[0].pointer == "/limit"
            assert "32 items" in found.detail
        assert (await gateway.http.post(ROOT, json=BODY | {"limit": 3})).status_code == 202
        assert len(gateway.ledger.runs.page().runs) == 2


MODELS: dict[str, tuple[str, int, str]] = {
    "an unknown name": ("nobody", 404, "unknown-model"),
    "a name of another case": ("Steady", 404, "unknown-model"),
    "a path upwards": ("../../etc/passwd", 422, "invalid-request"),
    "a path upwards of a folder": ("local:../../etc/passwd", 422, "invalid-request"),
    "two dots": ("local:..", 422, "invalid-request"),
    "an encoded path": ("local:..%2f..%2fetc", 422, "invalid-request"),
    "a path downwards": ("local:mine/sub", 422, "invalid-request"),
    "an absolute path": ("/etc/passwd", 422, "invalid-request"),
    "an absolute path of a folder": ("local:/etc", 422, "invalid-request"),
    "a file's URL": ("file:///etc/passwd", 422, "invalid-request"),
    "a fragment": ("timm:resnet50#x", 422, "invalid-request"),
    "a query": ("timm:resnet50?x", 422, "invalid-request"),
    "a NUL": ("steady\x00", 422, "invalid-request"),
    "a line break": ("steady\n", 422, "invalid-request"),
    "a unicode slash": ("local:..\u2215etc", 422, "invalid-request"),
    "a full-width slash": ("local:..\uff0fetc", 422, "invalid-request"),
    "full-width dots": ("local:\uff0e\uff0e", 422, "invalid-request"),
    "a backslash": ("local:..\\windows", 422, "invalid-request"),
    "a Windows drive": ("C:\\models", 422, "invalid-request"),
    "a Windows device": ("local:con", 404, "unknown-model"),
    "a Windows device with a suffix": ("local:NUL.safetensors", 404, "unknown-model"),
    "a home": ("local:~root", 422, "invalid-request"),
    "300 characters": ("x" * 300, 422, "invalid-request"),
    "a megabyte": ("x" * 10**6, 422, "invalid-request"),
    "nothing": ("", 422, "invalid-request"),
    "nothing behind a scheme": ("local:", 422, "invalid-request"),
    "a scheme of timm's own": ("timm:local-dir:/etc", 422, "invalid-request"),
    "TorchScript": ("torchscript:net", 422, "invalid-request"),
    "a pickle": ("pickle:net", 422, "invalid-request"),
    "a link of the file system's processes": ("local:/proc/self/root", 422, "invalid-request"),
}


@pytest.mark.fault("B41", "B44", "T16")
@pytest.mark.parametrize("kind", MODELS)
async def test_an_invalid_model_is_refused_and_not_stored(gateway: FakeGateway, kind: str) -> None:
    wanted, status, code = MODELS[kind]
    before = gateway.ledger.runs.page()
    answer = await gateway.http.post(ROOT, json=BODY | {"classifiers": ["steady", wanted]})
    found = problem(answer, status, code)
    assert [one.pointer for one in found.errors] == ["/classifiers/1"]
    assert len(answer.content) < 1000
    assert gateway.ledger.runs.page() == before
