"""The editor's health says what it can do; no other service's does."""

from __future__ import annotations

import httpx

from counterpose_core.contract.base import ServiceHealth
from counterpose_core.contract.editor_backends import CAPABILITIES
from counterpose_services.editor.deployment import EditorDeployment
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.settings import ServiceSettings
from fakes.engines import FakeEditor


async def test_the_editor_s_health_says_what_it_can_do() -> None:
    settings = ServiceSettings.model_validate({"secret": "a secret of many characters"})
    app = EditorDeployment(settings, engine=FakeEditor()).__serve_build_asgi_app__()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://editor.test") as http:
        health = ServiceHealth.model_validate_json((await http.get("/healthz")).content)
    assert health.capabilities == FakeEditor.capabilities


def test_prompt_to_prompt_is_what_the_engine_declares() -> None:
    assert EditorEngine.capabilities == CAPABILITIES["prompt-to-prompt"]
    able = {name for name, can in EditorEngine.capabilities if can}
    assert able == {"reconstruct", "captions", "levels", "tokens", "draw", "seeded"}
