"""Images of learned tokens: a slot draws its token, and a mismatched token fails only its own image."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import GENERATED_KIND, GenerateItem, GenerateRequest
from counterpose_core.contract.tokens import TokenDescription
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.tokens.files import TokenBundle, pack_bundle
from evaluation.reference.same_answers import LEVELS, levels_apart, stored_images
from fakes.tiny_pipeline import SUITE

pytestmark = pytest.mark.floats

MISSING, PROMPT = "e" * 64, "a photo of a <class>"


@pytest.fixture(scope="module")
def engine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> EditorEngine:
    return EditorEngine.load(SUITE, root, BlobStore(str(tmp_path_factory.mktemp("store"))))


def put_token(engine: EditorEngine, vectors: torch.Tensor, **changes: object) -> str:
    about = TokenDescription(
        class_name="boat",
        initialiser="bus",
        model=engine.identity,
        width=vectors.shape[1],
        vectors=vectors.shape[0],
        steps=8,
        pin_norm=True,
        templates="photo",
    )
    return engine.store.put(pack_bundle(TokenBundle(vectors, about.model_copy(update=changes))))


def generate(engine: EditorEngine, *items: GenerateItem) -> list[str]:
    response = engine.generate(GenerateRequest(items=list(items), steps=2, guidance=2.0))
    return [
        outcome.problem.code if outcome.problem else outcome.unwrap().image for outcome in response.outcomes
    ]


def test_a_token_with_a_word_s_vector_draws_what_the_word_draws(engine: EditorEngine) -> None:
    mean = engine.pipeline.prompts.mean_embedding
    bus, red_tram = (
        put_token(engine, mean("bus")[None]),
        put_token(engine, torch.stack([mean("red"), mean("tram")])),
    )
    slotted = GenerateItem(prompt="a <class> on grass", seed=1, token=bus)
    longer = GenerateItem(prompt="a <class> on grass", seed=1, token=red_tram)
    plain = [GenerateItem(prompt=f"a {words} on grass", seed=1) for words in ("bus", "red tram")]
    asked = (*generate(engine, plain[1], slotted, longer, plain[0]), *generate(engine, slotted))
    red_tram_read, bus_slotted, red_tram_slotted, bus_read, bus_alone = stored_images(engine.store, asked)
    assert levels_apart(bus_slotted, bus_read) <= LEVELS
    assert levels_apart(bus_slotted, bus_alone) <= LEVELS
    assert levels_apart(red_tram_slotted, red_tram_read) <= LEVELS
    assert levels_apart(red_tram_slotted, bus_slotted) > LEVELS
    both = stored_images(engine.store, generate(engine, *plain))
    assert levels_apart(both, [bus_read, red_tram_read]) <= LEVELS


@pytest.mark.fault("B27", "B32", "B33", "B46")
def test_a_mismatched_token_fails_only_its_own_image(engine: EditorEngine) -> None:
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


def test_the_store_records_a_generated_image(engine: EditorEngine) -> None:
    request = GenerateRequest(items=[GenerateItem(prompt="a photo of a bus", seed=1)], steps=2)
    ref = engine.generate(request).outcomes[0].unwrap().image
    assert engine.store.recall(GENERATED_KIND, ref) == ref
