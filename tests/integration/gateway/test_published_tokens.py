"""Published tokens: stored, named by an interface, and used without learning."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from counterpose_core.contract.dataset_interfaces import DatasetInterfaceSummary, Images
from counterpose_core.contract.runs import Run
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import Clock
from fakes.ports import FakeEditor
from fakes.world import CLASSES

ROOT = "/v1/dataset-interfaces"
BODY = {"dataset": "demo", "seed": 5}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path, Clock()) as opened:
        await opened.upload("demo", 3)
        yield opened


async def created(gateway: FakeGateway, **changes: Any) -> Run:
    answer = await gateway.http.post(ROOT, json=BODY | changes)
    assert answer.status_code == 202, answer.text
    return Run.model_validate_json(answer.content)


async def summary(gateway: FakeGateway, run: Run) -> DatasetInterfaceSummary:
    answer = await gateway.http.get(f"/v1/runs/{run.id}/summary")
    return DatasetInterfaceSummary.model_validate_json(answer.content)


async def stored(gateway: FakeGateway, **files: bytes) -> dict[str, str]:
    """Store files of tokens; return what an interface takes."""
    sent = [
        {"class_name": name.replace("_", " "), "content_base64": base64.b64encode(content).decode()}
        for name, content in files.items()
    ]
    answer = await gateway.http.post("/v1/token-files", json={"files": sent})
    assert answer.status_code == 201, answer.text
    found: dict[str, str] = answer.json()["tokens"]
    return found


@pytest.mark.paper("DI-S3.2-tokens")
async def test_published_tokens_are_taken_without_learning_any(gateway: FakeGateway) -> None:
    tokens = await stored(gateway, sled=b"the sled", KITE=b"the kite", tench=b"of no class here")
    run = await created(gateway, tokens=tokens)
    assert run.request_counts.total == 2
    await gateway.worker().work_off()
    found = await summary(gateway, run)
    assert set(found.tokens) == {"kite", "sled"}
    assert found.missing == dict.fromkeys(
        {*CLASSES} - {"kite", "sled"}, "no published token is of this class"
    )
    token = found.tokens["kite"]
    assert (token.token, token.published, token.steps, token.losses) == (tokens["KITE"], True, 0, [])
    assert token.resemblance is not None
    assert (len(token.token_images), token.resemblance.n) == (8, 8)
    editor = gateway.services.editor
    assert isinstance(editor, FakeEditor)
    assert editor.calls["learn_tokens"] == 1
    report = await gateway.http.get(f"/v1/runs/{run.id}/report")
    assert "published tokens, nothing learned" in report.text
    assert report.text.count(">published<") == 2
    made = {"class_name": "kite", "n": 1, "seed": 0}
    images = Images.model_validate_json(
        (await gateway.http.post(f"/v1/runs/{run.id}/generate", json=made)).content
    )
    assert images.images[0].token == tokens["KITE"]


@pytest.mark.parametrize(
    ("changes", "pointer", "told"),
    [
        ({"tokens": {"boat": "f" * 64}}, "/tokens/boat", "is not in the store"),
        ({"tokens": {"tench": "f" * 64}}, "/tokens", "there is no token of 'boat'"),
        (
            {"tokens": {"boat": "f" * 64}, "classes": ["boat", "sled"]},
            "/tokens",
            "there is no token of 'sled'",
        ),
        ({"tokens": {"boat": "f" * 64, "BOAT": "e" * 64}}, "/tokens", "are of the same class"),
        ({"tokens": {"boat": "f" * 64}, "steps": 3}, "", "leave out 'steps'"),
        ({"tokens": {}}, "/tokens", "at least 1"),
    ],
    ids=["missing", "none", "some", "twice", "learned", "empty"],
)
async def test_published_tokens_that_cannot_be_meant_are_refused(
    gateway: FakeGateway, changes: dict[str, Any], pointer: str, told: str
) -> None:
    answer = await gateway.http.post(ROOT, json=BODY | changes)
    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert (error["pointer"], told in error["detail"]) == (pointer, True), answer.text


async def test_a_token_file_that_is_no_base64_is_refused(gateway: FakeGateway) -> None:
    sent = {"files": [{"class_name": "boat", "content_base64": "****"}]}
    answer = await gateway.http.post("/v1/token-files", json=sent)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/files/0/content_base64")
