"""Pictures of learned tokens: a slot shows its token, and a token that does not fit fails alone."""

from __future__ import annotations

import pytest
import torch

from fakes.tiny_pipeline import SUITE, write_tiny_pipeline
from faultline_core.blobs import BlobStore
from faultline_core.contract.editor import GenerateItem, GenerateRequest
from faultline_core.contract.tokens import TokenDescription
from faultline_services.editor.engine import EditorEngine
from faultline_services.editor.token_bundle import TokenBundle, pack

MISSING, PROMPT = "e" * 64, "a photo of a <class>"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> EditorEngine:
    folder = tmp_path_factory.mktemp("models")
    write_tiny_pipeline(folder / "tiny")
    return EditorEngine.load(SUITE, folder, BlobStore(str(tmp_path_factory.mktemp("store"))))


def put_token(engine: EditorEngine, vectors: torch.Tensor, **changes: object) -> str:
    told = TokenDescription(
        class_name="boat",
        initialiser="bus",
        model=engine.identity,
        width=vectors.shape[1],
        vectors=vectors.shape[0],
        steps=8,
        pin_norm=True,
        templates="photo",
    )
    return engine.store.put(pack(TokenBundle(vectors, told.model_copy(update=changes))))


def generate(engine: EditorEngine, *items: GenerateItem) -> list[str]:
    response = engine.generate(GenerateRequest(items=list(items), steps=2, guidance=2.0))
    return [
        outcome.problem.code if outcome.problem else outcome.unwrap().image for outcome in response.outcomes
    ]


def test_a_token_of_a_words_vector_draws_what_the_word_draws(engine: EditorEngine) -> None:
    mean = engine.pipeline.prompts.mean_embedding
    bus, red_tram = (
        put_token(engine, mean("bus")[None]),
        put_token(engine, torch.stack([mean("red"), mean("tram")])),
    )
    slotted = GenerateItem(prompt="a <class> on grass", seed=1, token=bus)
    longer = GenerateItem(prompt="a <class> on grass", seed=1, token=red_tram)
    plain = [GenerateItem(prompt=f"a {words} on grass", seed=1) for words in ("bus", "red tram")]
    mixed = generate(engine, plain[1], slotted, longer, plain[0])
    assert mixed[1] == mixed[3] == generate(engine, slotted)[0]
    assert mixed[0] == mixed[2] != mixed[1]
    assert generate(engine, *plain) == [mixed[3], mixed[0]]


def test_tokens_that_do_not_fit_concern_their_own_pictures_alone(engine: EditorEngine) -> None:
    vector = engine.pipeline.prompts.mean_embedding("bus")[None]
    good, wide = put_token(engine, vector), put_token(engine, torch.ones(1, 1024))
    other = put_token(engine, vector, model=engine.identity.model_copy(update={"id": "other"}))
    older = put_token(engine, vector, model=engine.identity.model_copy(update={"revision": "0" * 64}))
    asked = [
        (PROMPT, wide), (PROMPT, other), (PROMPT, MISSING), (PROMPT, engine.store.put(b"no bundle")),
        ("a bus", good), ("a <class> on a <class>", good), ("a < class >", good), (PROMPT, None),
        ("a " * 23 + "<class>", good), (PROMPT, good), (PROMPT, older), ("a photo of a bus", None),
    ]  # fmt: skip
    found = generate(engine, *(GenerateItem(prompt=text, seed=1, token=token) for text, token in asked))
    assert found[:9] == [
        "invalid-request", "invalid-request", "artifact-missing", "model-format-refused",
        "invalid-request", "invalid-request", "invalid-request", "invalid-request", "prompt-too-long",
    ]  # fmt: skip
    assert found[9] == found[10] == found[11]
