"""The captioner behind the OpenAI API: what is asked of a model that chats about images, and what is read."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.captioner import (
    CaptionItem,
    CaptionRequest,
    LogLikelihoodItem,
    LogLikelihoodRequest,
)
from counterpose_core.errors import BackendUnavailable, UnknownModel
from counterpose_core.images.codecs import decode_image, encode_raw
from counterpose_core.suite import CaptionerSuite
from counterpose_services.captioner.served import load_served
from counterpose_services.settings import ServiceSettings
from fakes.openai_server import captioner_over, see


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


@pytest.fixture
def image(store: BlobStore) -> str:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return store.put(encode_raw(pixels))


def test_a_caption_goes_on_from_its_prefix_and_has_the_likelihood_of_the_rest(
    store: BlobStore, image: str
) -> None:
    seen: list[dict[str, Any]] = []

    def noted(request: httpx.Request) -> httpx.Response:
        seen.append(json.loads(request.content))
        return see(request)

    engine = captioner_over(noted, store, labelled_prefix="a photo of a {label},")
    item = CaptionItem(image=image, label="airplane")
    caption = engine.caption(CaptionRequest(items=[item])).outcomes[0].unwrap()
    begun = "a photo of an airplane,"
    assert caption.text.startswith(f"{begun} a ")
    assert caption.text.endswith("boat on the sea")
    text = caption.text.removeprefix(f"{begun} ")
    asked = LogLikelihoodRequest(items=[LogLikelihoodItem(image=image, text=text, prefix=begun)])
    weighed = engine.log_likelihood(asked).outcomes[0].unwrap()
    assert (caption.tokens, caption.log_likelihood) == (6, weighed.total)
    first = seen[0]
    assert (first["temperature"], first["min_tokens"], first["messages"][1]["content"]) == (0.0, 2, begun)
    url = first["messages"][0]["content"][0]["image_url"]["url"]
    sent = decode_image(base64.b64decode(url.removeprefix("data:image/png;base64,")))
    assert np.array_equal(sent, decode_image(store.get(image)))


def test_the_likelihood_without_a_prefix_is_that_of_every_token(store: BlobStore, image: str) -> None:
    """The template's own marks differ between an answer to be written and one that is given."""
    engine = captioner_over(see, store)
    caption = engine.caption(CaptionRequest(items=[CaptionItem(image=image)])).outcomes[0].unwrap()
    assert caption.tokens == len(caption.text.split()) == 6


def test_a_caption_that_is_too_long_for_the_editor_is_shortened(store: BlobStore, image: str) -> None:
    def talk(request: httpx.Request) -> httpx.Response:
        answer = json.loads(see(request).content)
        if json.loads(request.content)["max_tokens"] > 1:
            answer["choices"][0]["message"]["content"] = "a red boat on the sea. It sails past a tram."
        return httpx.Response(200, json=answer)

    engine = captioner_over(talk, store, text_limit=12)
    caption = engine.caption(CaptionRequest(items=[CaptionItem(image=image)])).outcomes[0].unwrap()
    assert (caption.text, caption.shortened) == ("a red boat on the sea.", True)


@pytest.mark.fault("F12")
@pytest.mark.parametrize(
    "change", [{"prompt_logprobs": None}, {"prompt_logprobs": [None, None]}, {"choices": []}]
)
def test_an_answer_without_likelihoods_fails_its_image(
    store: BlobStore, image: str, change: dict[str, object]
) -> None:
    engine = captioner_over(
        lambda request: httpx.Response(200, json=json.loads(see(request).content) | change), store
    )
    problem = engine.caption(CaptionRequest(items=[CaptionItem(image=image)])).outcomes[0].problem
    assert problem is not None
    assert (problem.code, problem.retryable) == ("bad-backend-output", True)


def test_a_suite_is_refused_whose_captioner_asks_what_no_server_does() -> None:
    served = {"engine": "openai", "model": "vlm", "server": "https://models.example/v1"}
    with pytest.raises(ValueError, match="set beams = 1"):
        CaptionerSuite.model_validate(served)
    with pytest.raises(ValueError, match="needs the address of a server"):
        CaptionerSuite.model_validate({"engine": "openai", "model": "vlm", "beams": 1})


def test_a_host_that_is_not_listed_gets_no_image(tmp_path: Path, store: BlobStore) -> None:
    suite = CaptionerSuite(engine="openai", model="vlm", server="https://models.example/v1", beams=1)
    settings = ServiceSettings.model_validate({"state_dir": tmp_path})
    with pytest.raises(UnknownModel, match=r"add 'models\.example' to COUNTERPOSE_SERVICES_OPENAI_HOSTS"):
        load_served(suite, settings, store)
    listed = settings.model_copy(update={"openai_hosts": ("127.0.0.1:9",), "openai_seconds": 0.5})
    nowhere = suite.model_copy(update={"server": "http://127.0.0.1:9/v1"})
    engine = load_served(nowhere, listed, store)
    try:
        assert "127.0.0.1:9" in engine.identity.id
        item = CaptionItem(image=store.put(encode_raw(np.zeros((8, 8, 3), dtype=np.uint8))))
        with pytest.raises(BackendUnavailable, match="cannot be reached"):
            engine.caption(CaptionRequest(items=[item]))
    finally:
        engine._server.close()


def test_a_key_is_not_sent_in_plain_text_to_another_machine(tmp_path: Path, store: BlobStore) -> None:
    key = tmp_path / "key"
    key.write_text("of-the-house", encoding="utf-8")
    given = {"state_dir": tmp_path, "openai_hosts": ("models.example",), "openai_key_file": key}
    suite = CaptionerSuite(engine="openai", model="vlm", server="http://models.example/v1", beams=1)
    key.chmod(0o644)
    with pytest.raises(UnknownModel, match="every user can read"):
        load_served(suite, ServiceSettings.model_validate(given), store)
    key.chmod(0o600)
    with pytest.raises(UnknownModel, match="would get its key in plain text"):
        load_served(suite, ServiceSettings.model_validate(given), store)
