"""Published tokens in the editor's engine: taken as they are, beside classes that are learned."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import GenerateItem, GenerateRequest
from counterpose_core.contract.tokens import (
    LearnedToken,
    LearnTokensRequest,
    LearnTokensResponse,
    TextualInversionPreset,
)
from counterpose_core.errors import ArtifactMissing, InvalidRequest, ModelFormatRefused
from counterpose_core.images.codecs import decode_image, encode_png
from counterpose_core.types import Cost
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.tokens.files import TokenBundle, unpack_bundle
from counterpose_services.editor.tokens.published import BASE_MODEL
from fakes.tiny_pipeline import RESOLUTION, SUITE

MISSING, PROMPT = "e" * 64, "a photo of a <class>"
PRESET = TextualInversionPreset(steps=2)


@pytest.fixture(scope="module")
def engine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> EditorEngine:
    return EditorEngine.load(SUITE, root, BlobStore(str(tmp_path_factory.mktemp("store"))))


@pytest.fixture
def fresh(engine: EditorEngine, tmp_path: Path) -> EditorEngine:
    """An engine with an empty store, which has no cached link."""
    return EditorEngine(engine.pipeline, SUITE, BlobStore(str(tmp_path)))


def put_images(engine: EditorEngine, name: str, count: int = 3) -> list[str]:
    drawn = np.random.default_rng(len(name)).integers(
        0, 256, (count, RESOLUTION, RESOLUTION, 3), dtype=np.uint8
    )
    return [engine.store.put(encode_png(pixels)) for pixels in drawn]


def item(engine: EditorEngine, name: str, **fields: object) -> dict[str, Any]:
    given = {"class_name": name, "images": put_images(engine, name), "initialiser": "bus"}
    return given | fields


def learn(engine: EditorEngine, *items: dict[str, Any]) -> LearnTokensResponse:
    body = {"items": items, "preset": PRESET, "link_steps": 100, "seed": 3}
    return engine.learn_tokens(LearnTokensRequest.model_validate(body))


def only(response: LearnTokensResponse) -> LearnedToken:
    [outcome] = response.outcomes
    return outcome.unwrap()


def bundle(engine: EditorEngine, token: LearnedToken) -> TokenBundle:
    assert token.bundle is not None
    return unpack_bundle(engine.store.get(token.bundle))


def saved(vector: torch.Tensor) -> bytes:
    """A vector as the published tokens are: written by torch.save."""
    buffer = io.BytesIO()
    torch.save(vector, buffer)
    return buffer.getvalue()


def renamed(engine: EditorEngine, name: str) -> EditorEngine:
    """The engine of the same weights under another name."""
    identity = engine.pipeline.identity.model_copy(update={"id": name})
    return EditorEngine(dataclasses.replace(engine.pipeline, identity=identity), SUITE, engine.store)


@pytest.mark.paper("DI-S3.2-tokens")
@pytest.mark.parametrize("written", [saved, lambda vector: save({"<boat>": vector})])
def test_a_published_token_is_taken_as_it_is_and_draws_images(
    fresh: EditorEngine, written: Callable[[torch.Tensor], bytes]
) -> None:
    editor = renamed(fresh, BASE_MODEL)
    vector = torch.linspace(-0.05, 0.05, editor.pipeline.prompts.width)
    ref = editor.store.put(written(vector))
    token = only(learn(editor, item(editor, "boat", published=ref)))
    assert (token.steps, token.losses, token.cost) == (0, [], Cost())
    taken = bundle(editor, token)
    assert taken.vectors.equal(vector[None])
    assert (taken.description.class_name, taken.description.model.id) == ("boat", BASE_MODEL)
    asked = GenerateItem(prompt=PROMPT, seed=1, token=token.bundle)
    (outcome,) = editor.generate(GenerateRequest(items=[asked], steps=2)).outcomes
    assert decode_image(editor.store.get(outcome.unwrap().image)).shape == (RESOLUTION, RESOLUTION, 3)


def test_a_bundle_is_its_own_published_token(fresh: EditorEngine) -> None:
    learned = only(learn(fresh, item(fresh, "boat")))
    taken, learning = learn(
        fresh, item(fresh, "tram", published=learned.bundle), item(fresh, "wagon")
    ).outcomes
    assert taken.unwrap().bundle == learned.bundle
    assert (taken.unwrap().steps, learning.unwrap().steps) == (0, PRESET.steps)


@pytest.mark.parametrize(
    ("content", "error", "told"),
    [
        (b"no token", ModelFormatRefused, "the published token of 'boat': the token's file contains code"),
        ("vector", InvalidRequest, "was learned for 'stabilityai/stable-diffusion-2', not for 'tiny'"),
        ("narrow", InvalidRequest, "has width 3"),
        (None, ArtifactMissing, "e{64}"),
    ],
    ids=["text", "other model", "width", "missing"],
)
def test_a_published_token_of_another_kind_is_refused_alone(
    fresh: EditorEngine, content: bytes | str | None, error: type[Exception], told: str
) -> None:
    if isinstance(content, str):
        content = saved(torch.zeros(3 if content == "narrow" else fresh.pipeline.prompts.width))
    ref = MISSING if content is None else fresh.store.put(content)
    refused, learned = learn(fresh, item(fresh, "boat", published=ref), item(fresh, "wagon")).outcomes
    with pytest.raises(error, match=told):
        refused.unwrap()
    assert learned.unwrap().bundle is not None
