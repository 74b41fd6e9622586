"""A dataset whose classes are codes is learned even if the generator cannot encode their names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import Clock
from fakes.ports import FakeEditor, fake_services
from faultline_core.contract.base import Outcome, Problem
from faultline_core.contract.dataset_interfaces import DatasetInterfaceSummary
from faultline_core.contract.editor import GeneratedImage, GenerateRequest, GenerateResponse
from faultline_core.errors import InvalidRequest, PromptTooLong, RequestError

ROOT = "/v1/dataset-interfaces"
BODY = {"dataset": "demo", "steps": 120, "seed": 5, "token_init": "toy", "classes": ["boat", "kite"]}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path, Clock()) as opened:
        await opened.upload("demo", 3)
        yield opened


@pytest.mark.paper("DI-AD-broad-init")
@pytest.mark.parametrize("refusal", [InvalidRequest, PromptTooLong])
async def test_a_name_the_generator_cannot_encode_is_still_learned(
    gateway: FakeGateway, refusal: type[RequestError]
) -> None:
    class Unread(FakeEditor):
        async def generate(self, request: GenerateRequest) -> GenerateResponse:
            answer = await super().generate(request)
            lost = Outcome[GeneratedImage](problem=Problem.of(refusal("'kite' is no word")))
            pairs = zip(request.items, answer.outcomes, strict=True)
            outcomes = [lost if "kite" in item.prompt else outcome for item, outcome in pairs]
            return answer.model_copy(update={"outcomes": outcomes})

    run_id = (await gateway.http.post(ROOT, json=BODY)).json()["id"]
    await gateway.worker(fake_services(gateway.world, editor=Unread(gateway.world))).work_off()
    answer = await gateway.http.get(f"{ROOT}/{run_id}/summary")
    found = DatasetInterfaceSummary.model_validate_json(answer.content)
    assert found.missing == {}
    boat, kite = found.tokens["boat"], found.tokens["kite"]
    assert (len(kite.token_images), kite.name_images) == (8, [])
    assert (kite.name_similarity, kite.name_resemblance) == (None, None)
    assert kite.resemblance is not None
    assert boat.name_resemblance is not None
    assert (await gateway.http.get(f"{ROOT}/{run_id}/report")).status_code == 200
