"""Calls of several backends in the queue of one editor: each is answered by its own, or refused by name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import EditItem, EditRequest, EditResponse
from counterpose_core.contract.editor_presets import EditorPreset
from counterpose_core.contract.images_api import ImagesApiPreset
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.errors import CounterposeError, InvalidRequest
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import EditorSuite
from counterpose_services.editor.backends import Backends
from counterpose_services.editor.deployment import EditorDeployment
from counterpose_services.editor.edit_backend import Cancelled, EditBackend
from counterpose_services.editor.images_api import ImagesApi
from counterpose_services.settings import ServiceSettings
from fakes.engines import FakeEditor
from fakes.images_server import ImagesServer, images_server

SERVED = ImagesApiPreset(backend="images-api")
LOADED = PromptToPromptPreset(self_replace=(0.5,))


class Loaded(EditBackend):
    """A backend that needs no server."""

    kind = "prompt-to-prompt"
    capabilities, identity = FakeEditor.capabilities, FakeEditor().identity

    def edit(self, request: EditRequest, *, cancelled: Cancelled) -> EditResponse:
        return FakeEditor().edit(request, cancelled=cancelled)


@pytest.fixture
def server() -> Iterator[ImagesServer]:
    with images_server() as serving:
        yield serving


@pytest.fixture
def served(server: ImagesServer, tmp_path: Path) -> Iterator[ImagesApi]:
    suite = EditorSuite(
        model="editor-1", server=server.url, resolution=32, default_preset="api", presets={"api": SERVED}
    )
    client = server.client()
    yield ImagesApi(client, suite, BlobStore(str(tmp_path / "store")))
    client.close()


async def answers(
    backends: Backends, folder: Path, presets: list[EditorPreset]
) -> list[str | CounterposeError]:
    """Ask one deployment at once, a call for each preset; return who answered, or the refusal."""
    settings = ServiceSettings.model_validate({"store_url": str(folder / "store"), "state_dir": folder})
    deployment = EditorDeployment(settings, backends)
    image = BlobStore(settings.store_url).put(encode_raw(np.zeros((8, 8, 3), dtype=np.uint8)))

    async def ask(number: int, preset: EditorPreset) -> str | CounterposeError:
        item = EditItem(image=image, caption="a dog", edited_caption=f"a cat of {number}")
        try:
            response = await deployment.edit(EditRequest(items=[item], preset=preset))
        except CounterposeError as error:
            return error
        assert [outcome.problem for outcome in response.outcomes] == [None]
        return response.model.id

    return await asyncio.gather(*(ask(number, preset) for number, preset in enumerate(presets)))


async def test_calls_of_two_backends_that_wait_together_go_each_to_its_own(
    served: ImagesApi, server: ImagesServer, tmp_path: Path
) -> None:
    loaded = Loaded()
    backends = Backends({"prompt-to-prompt": loaded, "images-api": served})
    found = await answers(backends, tmp_path, [SERVED, LOADED] * 6)
    assert found == [served.identity.id, loaded.identity.id] * 6
    assert len(server.asked) == 6


@pytest.mark.fault("F12")
async def test_a_call_of_a_backend_that_is_not_there_is_refused_alone(
    served: ImagesApi, server: ImagesServer, tmp_path: Path
) -> None:
    found = await answers(Backends({"images-api": served}), tmp_path, [SERVED, LOADED] * 6)
    assert found[::2] == [served.identity.id] * 6
    for refusal in found[1::2]:
        assert isinstance(refusal, InvalidRequest)
        assert "has no preset of the backend 'prompt-to-prompt'; start the services with" in refusal.detail
    assert len(server.asked) == 6
