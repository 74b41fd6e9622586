"""What the editor can do: its health says it, and a backend refuses by name what it has not declared."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from counterpose_core.contract.base import ModelIdentity, ServiceHealth
from counterpose_core.contract.editor import (
    EditItem,
    EditRequest,
    EditResponse,
    GenerateItem,
    GenerateRequest,
    ReconstructItem,
    ReconstructRequest,
)
from counterpose_core.contract.editor_backends import CAPABILITIES, Capabilities
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.contract.tokens import LearnTokenItem, LearnTokensRequest, TextualInversionPreset
from counterpose_core.errors import InvalidRequest
from counterpose_services.editor.backends import LOADERS, Backends
from counterpose_services.editor.deployment import EditorDeployment
from counterpose_services.editor.edit_backend import Cancelled, EditBackend
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.settings import ServiceSettings
from fakes.engines import FakeEditor

IMAGE = "0" * 64
EDIT = EditRequest(
    items=[EditItem(image=IMAGE, caption="a boat", edited_caption="a tram")], preset=PromptToPromptPreset()
)


class OnlyEdits(EditBackend):
    """Declares that it edits by captions, and answers with nothing."""

    kind = "prompt-to-prompt"
    capabilities = Capabilities(captions=True)
    identity = ModelIdentity(id="only-edits", revision="1")

    def edit(self, request: EditRequest, *, cancelled: Cancelled) -> EditResponse:
        return EditResponse(outcomes=[], model=self.identity)


def never() -> bool:
    return False


async def test_the_editor_s_health_says_what_it_can_do() -> None:
    settings = ServiceSettings.model_validate({"secret": "a secret of many characters"})
    app = EditorDeployment(settings, engine=FakeEditor()).__serve_build_asgi_app__()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://editor.test") as http:
        health = ServiceHealth.model_validate_json((await http.get("/healthz")).content)
    assert health.capabilities == FakeEditor.capabilities


def test_prompt_to_prompt_is_what_the_engine_declares() -> None:
    abilities = {"reconstruct", "captions", "mask", "levels", "tokens", "draw", "seeded"}
    assert CAPABILITIES[EditorEngine.kind].abilities == abilities


def test_every_backend_can_be_loaded() -> None:
    assert LOADERS.keys() == CAPABILITIES.keys()


def test_a_call_goes_to_the_backend_of_its_preset() -> None:
    editor = Backends({"prompt-to-prompt": OnlyEdits()})
    assert editor.edit(EDIT, cancelled=never).model == editor.identity == OnlyEdits.identity
    assert editor.capabilities == OnlyEdits.capabilities
    assert editor.rows() == (0, 0)
    with pytest.raises(InvalidRequest, match="no preset of the backend 'prompt-to-prompt'"):
        Backends({}).edit(EDIT, cancelled=never)


@pytest.mark.parametrize(
    ("verb", "request_", "ability"),
    [
        (
            "reconstruct",
            ReconstructRequest(items=[ReconstructItem(image=IMAGE, caption="a boat")], preset=EDIT.preset),
            "reconstruct",
        ),
        ("generate", GenerateRequest(items=[GenerateItem(prompt="a boat", seed=1)]), "draw"),
        (
            "learn_tokens",
            LearnTokensRequest(
                items=[LearnTokenItem(class_name="boat", images=[IMAGE])],
                preset=TextualInversionPreset(), link_steps=1, seed=1,
            ),
            "tokens",
        ),
    ],
)  # fmt: skip
def test_what_a_backend_has_not_declared_is_refused_by_name(verb: str, request_: Any, ability: str) -> None:
    editor = Backends({"prompt-to-prompt": OnlyEdits()})
    with pytest.raises(InvalidRequest, match=f"'prompt-to-prompt' lacks the capability '{ability}'"):
        getattr(editor, verb)(request_, cancelled=never)
