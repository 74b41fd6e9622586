"""The scorer on tiny random models saved by open_clip and transformers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import Outcome
from counterpose_core.contract.scorer import (
    EditScores,
    EmbedImagesRequest,
    EmbedTextsRequest,
    FilledMask,
    FillMaskItem,
    FillMaskRequest,
    ScoreItem,
    ScoreRequest,
    TextEncoder,
)
from counterpose_core.errors import BadBackendOutput, ModelFormatRefused, PromptTooLong, UnknownModel
from counterpose_core.images.clip_metrics import cosine, directional_similarity
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import ScorerSuite
from counterpose_core.text.stop_words import STOP_WORDS
from counterpose_services.scorer.engine import ScorerEngine
from counterpose_services.scorer.masked_words import _whole_words
from evaluation.reference.same_answers import FLOAT32
from fakes.tiny_models.bert import save_masked_lm, save_sentence_encoder
from fakes.tiny_models.clip import WIDTH, save_clip
from fakes.tiny_models.words import WORDS

pytestmark = pytest.mark.floats

SUITE = ScorerSuite(clip="clip", sentence="sentence", masked_lm="masked-lm", batch=3)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite")
    save_clip(folder / "clip")
    save_sentence_encoder(folder / "sentence")
    save_masked_lm(folder / "masked-lm")
    return folder


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


@pytest.fixture
def engine(root: Path, store: BlobStore) -> ScorerEngine:
    return ScorerEngine.load(SUITE, root, store)


def put_image(store: BlobStore, seed: int) -> str:
    patches = np.random.default_rng(seed).integers(0, 256, (3, 3, 3), dtype=np.uint8)
    return store.put(encode_raw(patches.repeat(7, axis=0).repeat(8, axis=1)))


def code_of(outcome: Outcome[Any]) -> str | None:
    return None if outcome.problem is None else outcome.problem.code


def images_of(engine: ScorerEngine, *refs: str) -> np.ndarray:
    response = engine.embed_images(EmbedImagesRequest(images=list(refs)))
    return np.array([outcome.unwrap().vector for outcome in response.outcomes])


def texts_of(engine: ScorerEngine, *texts: str, encoder: TextEncoder = "clip") -> np.ndarray:
    response = engine.embed_texts(EmbedTextsRequest(texts=list(texts), encoder=encoder))
    return np.array([outcome.unwrap().vector for outcome in response.outcomes])


def scores(engine: ScorerEngine, *items: ScoreItem) -> list[EditScores]:
    return [outcome.unwrap() for outcome in engine.score(ScoreRequest(items=list(items))).outcomes]


def item(store: BlobStore, **changes: str) -> ScoreItem:
    values = {
        "original": put_image(store, 0),
        "edited": put_image(store, 1),
        "caption": "a red boat on the sea",
        "edited_caption": "a blue boat on the sea",
        "removed": "red",
        "added": "blue",
    }
    return ScoreItem.model_validate(values | changes)


def fill(engine: ScorerEngine, **changes: object) -> FilledMask:
    values: dict[str, object] = {"text": "a red boat on the sea", "position": 1, "n": 5, "seed": 3}
    items = [FillMaskItem.model_validate(values | changes)]
    (outcome,) = engine.fill_mask(FillMaskRequest(items=items)).outcomes
    return outcome.unwrap()


def test_embeddings_are_unit_vectors_and_differ_by_input(engine: ScorerEngine, store: BlobStore) -> None:
    for vectors in (
        images_of(engine, put_image(store, 0), put_image(store, 1)),
        texts_of(engine, "a red boat", "a tram at night"),
        texts_of(engine, "a red boat", "a tram at night", encoder="sentence"),
    ):
        assert vectors.shape == (2, WIDTH)
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0)
        assert not np.allclose(vectors[0], vectors[1], atol=1e-3)


def test_scores_are_cosines_of_the_embeddings(engine: ScorerEngine, store: BlobStore) -> None:
    (found,) = scores(engine, item(store))
    original, edited = images_of(engine, put_image(store, 0), put_image(store, 1))
    before, after = texts_of(engine, "a red boat on the sea", "a blue boat on the sea")
    red, blue = texts_of(engine, "red", "blue")
    assert found.direction == pytest.approx(float(directional_similarity(original, edited, before, after)))
    assert found.image_image == pytest.approx(float(cosine(original, edited)))
    assert found.text_original == pytest.approx(float(cosine(original, before)))
    assert found.text_edited == pytest.approx(float(cosine(edited, after)))
    assert found.text_edited_source == pytest.approx(float(cosine(edited, before)))
    assert found.text_original_edit == pytest.approx(float(cosine(original, after)))
    assert found.words_removed == pytest.approx(float(cosine(edited, red)))
    assert found.words_added == pytest.approx(float(cosine(edited, blue)))


def test_an_insertion_has_no_removed_words_to_compare(engine: ScorerEngine, store: BlobStore) -> None:
    (found,) = scores(engine, item(store, removed=""))
    assert found.words_removed is None
    assert found.words_added is not None


def test_an_edit_that_changes_nothing_has_no_direction(engine: ScorerEngine, store: BlobStore) -> None:
    (found,) = scores(engine, item(store, edited=put_image(store, 0)))
    assert found.direction == 0.0
    assert found.image_image == pytest.approx(1.0)


def test_each_distinct_image_and_text_is_embedded_once(engine: ScorerEngine, store: BlobStore) -> None:
    sweep = [item(store, edited=put_image(store, seed)) for seed in (1, 2, 3)]
    first = engine.score(ScoreRequest(items=sweep))
    assert first.cost.clip_passes == 4 + 4
    again = engine.score(ScoreRequest(items=sweep))
    assert again.cost.clip_passes == 0
    assert again.outcomes == first.outcomes


def test_embeddings_outlive_the_engine(root: Path, engine: ScorerEngine, store: BlobStore) -> None:
    engine.embed_images(EmbedImagesRequest(images=[put_image(store, 0)]))
    restarted = ScorerEngine.load(SUITE, root, store)
    response = restarted.embed_images(EmbedImagesRequest(images=[put_image(store, 0)]))
    assert response.cost.clip_passes == 0


def test_embeddings_of_other_weights_are_not_reused(root: Path, store: BlobStore, tmp_path: Path) -> None:
    save_clip(tmp_path / "other" / "clip", seed=1)
    for name in ("sentence", "masked-lm"):
        (tmp_path / "other" / name).symlink_to(root / name)
    first = images_of(ScorerEngine.load(SUITE, root, store), put_image(store, 0))
    second = images_of(ScorerEngine.load(SUITE, tmp_path / "other", store), put_image(store, 0))
    assert not np.allclose(first, second, atol=1e-3)


@pytest.mark.fault("B4")
def test_a_bad_image_fails_only_the_edits_that_use_it(engine: ScorerEngine, store: BlobStore) -> None:
    broken = store.put(b"no image")
    items = [item(store), item(store, edited=broken), item(store, original="f" * 64)]
    outcomes = engine.score(ScoreRequest(items=items)).outcomes
    assert [code_of(outcome) for outcome in outcomes] == [None, "image-undecodable", "artifact-missing"]


@pytest.mark.fault("B27")
def test_a_text_that_would_be_truncated_is_refused(engine: ScorerEngine, store: BlobStore) -> None:
    fits, too_long = "red " * 14, "red " * 15
    response = engine.embed_texts(EmbedTextsRequest(texts=[fits, too_long]))
    assert [code_of(outcome) for outcome in response.outcomes] == [None, "prompt-too-long"]
    outcomes = engine.score(ScoreRequest(items=[item(store, edited_caption=too_long), item(store)])).outcomes
    assert [code_of(outcome) for outcome in outcomes] == ["prompt-too-long", None]


def test_embeddings_do_not_depend_on_batch_mates(root: Path, tmp_path: Path) -> None:
    stores = [BlobStore(str(tmp_path / name)) for name in ("alone", "together")]
    texts = ("a red boat", "a tram at night with dogs in the snow", "sled")
    for encoder in ("clip", "sentence"):
        alone = texts_of(ScorerEngine.load(SUITE, root, stores[0]), texts[0], encoder=encoder)
        together = texts_of(ScorerEngine.load(SUITE, root, stores[1]), *texts, encoder=encoder)
        assert together[0] == pytest.approx(alone[0], abs=1e-5)


def test_nan_is_a_problem_and_is_not_cached(root: Path, store: BlobStore, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "broken")
    weights = tmp_path / "broken" / "clip" / "open_clip_model.safetensors"
    tensors = load_file(weights)
    save_file(tensors | {"visual.proj": tensors["visual.proj"] * float("nan")}, weights)
    engine = ScorerEngine.load(SUITE, tmp_path / "broken", store)
    for _ in range(2):
        response = engine.embed_images(EmbedImagesRequest(images=[put_image(store, 0)]))
        assert code_of(response.outcomes[0]) == "bad-backend-output"
        assert response.cost.clip_passes == 1


@pytest.mark.paper("LANCE-B-fill-mask")
def test_replacement_words_are_distinct_content_words(engine: ScorerEngine) -> None:
    filled = fill(engine, n=8)
    assert len(set(filled.words)) == len(filled.words) == 8
    assert set(filled.words) <= set(WORDS)
    assert "red" not in filled.words
    assert not set(filled.words) & STOP_WORDS
    assert all(0 < probability < 1 for probability in filled.probabilities)


def test_drawn_words_are_equal_only_for_equal_seeds(engine: ScorerEngine) -> None:
    first, again = fill(engine, n=3), fill(engine, n=3)
    assert again.words == first.words
    assert again.probabilities == pytest.approx(first.probabilities, abs=FLOAT32)
    assert len({tuple(fill(engine, n=3, seed=seed).words) for seed in range(8)}) > 1


def test_masking_keeps_the_punctuation_around_the_word(engine: ScorerEngine) -> None:
    text = "a boat , red boat"
    assert fill(engine, text=text, position=3).words
    with pytest.raises(Exception, match="no word at position 2"):
        fill(engine, text=text, position=2)


@pytest.mark.paper("LANCE-B-lance-r-stop")
@pytest.mark.parametrize(("position", "word"), [(0, "stop word"), (9, "no word at position 9")])
def test_stop_words_and_missing_positions_are_refused(position: int, word: str, engine: ScorerEngine) -> None:
    with pytest.raises(Exception, match=word):
        fill(engine, position=position)


@pytest.mark.fault("B44", "T15")
def test_pickled_clip_weights_are_refused_even_with_safetensors_present(
    tmp_path: Path, store: BlobStore
) -> None:
    save_clip(tmp_path / "clip")
    weights = tmp_path / "clip" / "open_clip_model.safetensors"
    weights.rename(tmp_path / "clip" / "open_clip_pytorch_model.bin")
    (tmp_path / "clip" / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelFormatRefused):
        ScorerEngine.load(SUITE, tmp_path, store)


def test_published_weights_are_looked_up_only_locally(root: Path, store: BlobStore) -> None:
    with pytest.raises(UnknownModel, match="ViT-L-14"):
        ScorerEngine.load(SUITE.model_copy(update={"clip": "open_clip:ViT-L-14"}), root, store)


def with_weight(root: Path, folder: Path, name: str, factor: float) -> ScorerEngine:
    """Load the suite with one tensor of its CLIP multiplied."""
    shutil.copytree(root, folder)
    weights = folder / "clip" / "open_clip_model.safetensors"
    tensors = load_file(weights)
    save_file(tensors | {name: tensors[name] * factor}, weights)
    return ScorerEngine.load(SUITE, folder, BlobStore(str(folder / "store")))


def test_a_zero_embedding_is_a_problem_of_the_model(root: Path, store: BlobStore, tmp_path: Path) -> None:
    engine = with_weight(root, tmp_path / "flat", "text_projection", 0.0)
    (outcome,) = engine.embed_texts(EmbedTextsRequest(texts=["a red boat"])).outcomes
    assert code_of(outcome) == "bad-backend-output"


def test_only_the_sentence_that_would_be_truncated_is_refused(engine: ScorerEngine) -> None:
    texts = ["red boat", "red " * 40]
    outcomes = engine.embed_texts(EmbedTextsRequest(texts=texts, encoder="sentence")).outcomes
    assert [code_of(outcome) for outcome in outcomes] == [None, "prompt-too-long"]


def test_a_masked_text_that_would_be_truncated_is_refused(engine: ScorerEngine) -> None:
    with pytest.raises(PromptTooLong):
        fill(engine, text="red " * 40)


def test_a_masked_model_that_returns_nan_gives_no_words(engine: ScorerEngine) -> None:
    masked = engine._masked
    text = masked.read(FillMaskItem(text="a red boat", position=1, seed=0))
    odds = masked.odds([text])[0]
    with pytest.raises(BadBackendOutput, match="not finite"):
        masked.draw(text, odds * float("nan"))


def test_no_words_are_offered_if_none_is_possible(engine: ScorerEngine) -> None:
    masked = engine._masked
    text = masked.read(FillMaskItem(text="a red boat", position=1, seed=0))
    assert masked.draw(text, torch.zeros_like(masked.odds([text])[0])).words == []


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (
            ["boat", "##s", "[MASK]", "the", "x", "ice-cream", "42"],
            ["boat", None, None, None, None, "ice-cream", None],
        ),
        (["\u0120boat", "s", "\u0120the", "boat"], ["boat", None, None, None]),
        (["\u2581tram", "way", "\u2581a"], ["tram", None, None]),
    ],
)
def test_only_whole_content_words_of_a_vocabulary_are_offered(
    tokens: list[str], words: list[str | None]
) -> None:
    assert _whole_words(tokens) == words
