"""Our client against installed servers' classes and routes: each side reads what the other sends."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastapi
import numpy as np
import pytest
import uvicorn

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import (
    EditItem,
    EditRequest,
    EditVariant,
    GeneratedImage,
    GenerateItem,
    GenerateRequest,
)
from counterpose_core.contract.images_api import ImagesApiPreset
from counterpose_core.contract.served_images import ServedUsage
from counterpose_core.images.codecs import decode_image, encode_png, encode_raw
from counterpose_core.suite import EditorSuite
from counterpose_processes.ports import free_port
from counterpose_services.editor.images_api import ImagesApi
from counterpose_services.openai_api.server import OpenAIServer
from fakes.images_server import ImagesServer
from fakes.processes import look_until
from images_api.servers import SERVERS, Served

SIDE = 32
MADE = np.full((SIDE, SIDE, 3), 90, dtype=np.uint8)
USAGE = {"prompt_tokens": 40, "completion_tokens": 272, "total_tokens": 312}


@dataclass
class Speaking:
    """A server that reads requests as the installed one does, and answers with its class."""

    served: Served
    read: list[dict[str, Any]] = field(default_factory=list)
    port: int = field(default_factory=free_port)
    clients: list[OpenAIServer] = field(default_factory=list)

    def answer(self) -> dict[str, Any]:
        """One image, with all that the class may tell."""
        response = self.served.of_response()
        told = {"id": "1", "created": 1, "data": [{"b64_json": base64.b64encode(encode_png(MADE)).decode()}]}
        told |= {"usage": USAGE, "output_format": "png", "size": f"{SIDE}x{SIDE}"}
        known = {name: value for name, value in told.items() if name in response.model_fields}
        return response.model_validate(known).model_dump(mode="json")

    @property
    def app(self) -> fastapi.FastAPI:
        """Its two routes."""
        own, app, route = self.served.of_request(), fastapi.FastAPI(), self.served.route_of_edits()

        async def draw(request: Any) -> dict[str, Any]:
            self.read.append({name: getattr(request, name) for name in request.model_fields_set})
            assert not request.model_extra, "fields that it does not know"
            return self.answer()

        async def edit(given: Any) -> dict[str, Any]:
            self.read.append({name: value for name, value in given.items() if name != "raw_request"})
            return self.answer()

        draw.__annotations__["request"] = own
        edit.__annotations__["given"] = dict[str, Any]
        edit.__defaults__ = (fastapi.Depends(route),)
        app.add_api_route("/v1/images/generations", draw, methods=["POST"], response_model=None)
        app.add_api_route("/v1/images/edits", edit, methods=["POST"], response_model=None)
        return app

    def engine(self, store: BlobStore, **preset: object) -> ImagesApi:
        """Our client of it."""
        client = ImagesServer(lambda *_: pytest.fail("not asked"), self.port).client()
        self.clients.append(client)
        suite = EditorSuite.model_validate(
            {
                "model": "qwen-image-edit",
                "server": client.url,
                "resolution": SIDE,
                "default_preset": "api",
                "presets": {"api": {"backend": "images-api", **preset}},
            }
        )
        return ImagesApi(client, suite, store)


@contextmanager
def speaking(served: Served) -> Iterator[Speaking]:
    """Serve during the block."""
    spoken = Speaking(served)
    server = uvicorn.Server(uvicorn.Config(spoken.app, port=spoken.port, log_config=None, lifespan="off"))
    serving = threading.Thread(target=server.run)
    serving.start()
    try:
        look_until(lambda: server.started or not serving.is_alive())
        yield spoken
    finally:
        for client in spoken.clients:
            client.close()
        server.should_exit = True
        serving.join()


@pytest.fixture(params=SERVERS, ids=lambda served: served.package)
def spoken(request: pytest.FixtureRequest) -> Iterator[Speaking]:
    with speaking(request.param) as found:
        yield found


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


def seed_of(made: EditVariant | GeneratedImage) -> int | None:
    """The seed that is recorded of an image."""
    assert made.served is not None
    return made.served.seed


@pytest.mark.parametrize(
    "preset",
    [{}, {"seeded": True, "size": "source"}, {"size": "64x48", "send_response_format": False}],
    ids=["plain", "seeded", "sized"],
)
def test_an_edit_is_read_as_it_was_meant_and_its_answer_is_used(
    spoken: Speaking, store: BlobStore, preset: dict[str, object]
) -> None:
    image = store.put(encode_raw(np.zeros((SIDE, SIDE, 3), dtype=np.uint8)))
    item = EditItem(image=image, caption="a dog", edited_caption="a cat")
    wanted = ImagesApiPreset.model_validate({"backend": "images-api", **preset})
    engine = spoken.engine(store, **preset)
    [outcome] = engine.edit(EditRequest(items=[item], preset=wanted), cancelled=lambda: False).outcomes
    [variant] = outcome.unwrap().variants
    [read] = spoken.read
    assert (read["model"], read["n"]) == ("qwen-image-edit", 1)
    assert 'shows "a cat"' in read["prompt"]
    [sent] = read["image"]
    assert (sent.filename, sent.content_type) == ("image.png", "image/png")
    if wanted.seeded:
        assert isinstance(read["seed"], int)
        assert read["seed"] == seed_of(variant)
    if wanted.size is not None:
        assert read["size"] == (f"{SIDE}x{SIDE}" if wanted.size == "source" else wanted.size)
    assert (read["response_format"] or "b64_json") == "b64_json"
    assert np.array_equal(decode_image(store.get(variant.image)), MADE)


def test_images_from_text_are_read_as_they_were_meant(spoken: Speaking, store: BlobStore) -> None:
    engine = spoken.engine(store, text_to_image=True, seeded=True)
    items = [GenerateItem(prompt="a red boat", seed=2**31 + 7)]
    [outcome] = engine.generate(GenerateRequest(items=items), cancelled=lambda: False).outcomes
    made = outcome.unwrap()
    [read] = spoken.read
    assert read == {
        "model": "qwen-image-edit", "prompt": "a red boat", "n": 1, "size": f"{SIDE}x{SIDE}",
        "response_format": "b64_json", "seed": seed_of(made),
    }  # fmt: skip
    assert np.array_equal(decode_image(store.get(made.image)), MADE)


def test_what_a_server_counts_is_read_by_the_names_of_either_api(store: BlobStore) -> None:
    [counting] = (served for served in SERVERS if "usage" in served.of_response().model_fields)
    with speaking(counting) as spoken:
        engine = spoken.engine(store, text_to_image=True)
        request = GenerateRequest(items=[GenerateItem(prompt="a red boat", seed=1)])
        [outcome] = engine.generate(request, cancelled=lambda: False).outcomes
    served = outcome.unwrap().served
    assert served is not None
    assert served.usage == ServedUsage(input_tokens=40, output_tokens=272, total_tokens=312)


def test_a_size_that_a_server_does_not_take_is_said_in_its_words(store: BlobStore) -> None:
    [strict] = (served for served in SERVERS if served.package == "vllm_omni")
    with speaking(strict) as spoken:
        engine = spoken.engine(store, text_to_image=True, size="auto")
        request = GenerateRequest(items=[GenerateItem(prompt="a red boat", seed=1)])
        [outcome] = engine.generate(request, cancelled=lambda: False).outcomes
    assert outcome.problem is not None
    assert outcome.problem.code == "invalid-request"
    assert "WIDTHxHEIGHT" in outcome.problem.detail
    assert spoken.read == []
