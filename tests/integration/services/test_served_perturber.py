"""The perturber's Serve class where a server has the language model."""

from __future__ import annotations

import asyncio
import threading
from importlib import resources
from pathlib import Path

import httpx

from counterpose_core.contract.base import SECRET_HEADER
from counterpose_core.contract.perturber import PerturbRequest, PerturbResponse
from counterpose_services.perturber.deployment import PerturberDeployment
from counterpose_services.settings import ServiceSettings
from fakes.engines import FakePerturber

SECRET = "a secret of many characters"
SERVED = '[perturber]\nengine = "openai"\nserver = "http://model.test/v1"'


class Meeting(FakePerturber):
    """Answers when four calls are inside."""

    def __init__(self) -> None:
        super().__init__()
        self._four = threading.Barrier(4)

    def perturb(self, request: PerturbRequest) -> PerturbResponse:
        """Wait for the others, and answer."""
        self._four.wait(100.0)
        return super().perturb(request)


async def test_calls_that_wait_for_a_server_do_not_wait_for_each_other(tmp_path: Path) -> None:
    text = (resources.files("counterpose_core") / "suites" / "miniature.toml").read_text(encoding="utf-8")
    (tmp_path / "own.toml").write_text(text.replace("[perturber]", SERVED), encoding="utf-8")
    settings = ServiceSettings.model_validate({"secret": SECRET, "suite": str(tmp_path / "own.toml")})
    app = PerturberDeployment(settings, engine=Meeting()).__serve_build_asgi_app__()
    edit = {"caption": "a boat", "perturbation_type": "subject", "n": 1, "seed": 1}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://perturber.test", headers={SECRET_HEADER: SECRET}
    ) as http:
        calls = [http.post("/v1/perturb", json={"items": [edit]}) for _ in range(4)]
        responses = await asyncio.gather(*calls)
        weighed = await http.post("/v1/likelihoods", json={"texts": ["a boat"]})
    assert [response.status_code for response in responses] == [200] * 4
    assert weighed.json()["outcomes"][0]["value"]["tokens"] > 0
