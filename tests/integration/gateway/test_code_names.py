"""A dataset whose classes are codes is learned even if the generator cannot encode their names."""

from __future__ import annotations

import pytest

from counterpose_core.contract.dataset_interfaces import DatasetInterfaceSummary
from counterpose_core.contract.editor import GenerateRequest, GenerateResponse
from counterpose_core.errors import InvalidRequest, PromptTooLong, RequestError
from fakes.gateway import FakeGateway
from fakes.ports import FakeEditor, fake_services, refusing

ROOT = "/v1/dataset-interfaces"
BODY = {"steps": 120, "seed": 5, "token_init": "toy", "classes": ["boat", "kite"]}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.paper("DI-AD-broad-init")
@pytest.mark.parametrize("refusal", [InvalidRequest, PromptTooLong])
async def test_a_name_the_generator_cannot_encode_is_still_learned(
    gateway: FakeGateway, name: str, refusal: type[RequestError]
) -> None:
    class Unread(FakeEditor):
        async def generate(self, request: GenerateRequest) -> GenerateResponse:
            answer = await super().generate(request)
            unread = ["kite" in item.prompt for item in request.items]
            return refusing(answer, unread, refusal("'kite' is no word"))

    await gateway.upload(name, 3)
    run_id = (await gateway.http.post(ROOT, json=BODY | {"dataset": name})).json()["id"]
    await gateway.worker(fake_services(gateway.world, editor=Unread(gateway.world))).work_off()
    answer = await gateway.http.get(f"/v1/runs/{run_id}/summary")
    found = DatasetInterfaceSummary.model_validate_json(answer.content)
    assert found.missing == {}
    boat, kite = found.tokens["boat"], found.tokens["kite"]
    assert (len(kite.token_images), kite.name_images) == (8, [])
    assert (kite.name_similarity, kite.name_resemblance) == (None, None)
    assert kite.resemblance is not None
    assert boat.name_resemblance is not None
    assert (await gateway.http.get(f"/v1/runs/{run_id}/report")).status_code == 200
