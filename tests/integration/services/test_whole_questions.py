"""What calls ask of the classifiers reaches their engine whole, though calls share batches."""

from __future__ import annotations

import httpx

from counterpose_core.contract.base import SECRET_HEADER
from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse
from counterpose_services.classifiers.deployment import ClassifiersDeployment
from counterpose_services.settings import ServiceSettings
from fakes.engines import FakeClassifiers

SECRET = "a secret of many characters"
IMAGE = "0" * 64


async def test_the_engine_gets_every_field_of_a_question() -> None:
    asked: list[ClassifyRequest] = []

    class Asked(FakeClassifiers):
        def classify(self, request: ClassifyRequest) -> ClassifyResponse:
            asked.append(request)
            return super().classify(request)

    body = {
        "classifier": "sure",
        "images": [IMAGE],
        "classes": ["boat", "tram"],
        "function": f"http://127.0.0.1:9/{'a' * 32}/v2/models/sure/versions/1",
        "label_map": {"boat": ["speedboat", "canoe"]},
        "prepared": "blue-first",
        "features": True,
    }
    settings = ServiceSettings.model_validate({"secret": SECRET, "batch_wait_s": 0.0})
    service = ClassifiersDeployment(settings, engine=Asked())
    transport = httpx.ASGITransport(app=service.__serve_build_asgi_app__())
    headers = {SECRET_HEADER: SECRET}
    async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as http:
        answer = await http.post("/v1/classify", json=body)
    assert answer.status_code == 200, answer.text
    assert asked == [ClassifyRequest.model_validate(body)]
    assert asked[0].model_fields_set == set(ClassifyRequest.model_fields) == set(body)
