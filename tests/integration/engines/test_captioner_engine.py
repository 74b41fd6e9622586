"""The captioner on a tiny random BLIP-2 saved by transformers."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import Outcome
from counterpose_core.contract.captioner import (
    Caption,
    CaptionItem,
    CaptionRequest,
    LogLikelihoodItem,
    LogLikelihoodRequest,
)
from counterpose_core.errors import ModelFormatRefused, PromptTooLong, UnknownModel
from counterpose_core.images.codecs import encode_png, encode_raw
from counterpose_core.suite import CaptionerSuite
from counterpose_services.captioner.engine import CaptionerEngine
from counterpose_services.captioner.shortening import shortened
from fakes.tiny_models.blip2 import save_blip2

pytestmark = pytest.mark.floats

SUITE = CaptionerSuite(
    model="captioner", beams=3, min_tokens=2, max_tokens=6, labelled_prefix="a photo of a {label}", batch=4
)


@pytest.fixture(scope="module")
def root(models: Path) -> Path:
    save_blip2(models / "captioner")
    return models


@pytest.fixture(scope="module")
def engine(root: Path, store: BlobStore) -> CaptionerEngine:
    return CaptionerEngine.load(SUITE, root, store)


def put_image(store: BlobStore, seed: int) -> str:
    patches = np.random.default_rng(seed).integers(0, 256, (3, 3, 3), dtype=np.uint8)
    return store.put(encode_raw(patches.repeat(7, axis=0).repeat(8, axis=1)))


def captions(engine: CaptionerEngine, *items: CaptionItem) -> list[Caption]:
    return [outcome.unwrap() for outcome in engine.caption(CaptionRequest(items=list(items))).outcomes]


def code_of(outcome: Outcome[Any]) -> str | None:
    return None if outcome.problem is None else outcome.problem.code


@pytest.mark.paper("LANCE-S3-beam")
def test_a_caption_has_text_and_a_finite_likelihood(engine: CaptionerEngine, store: BlobStore) -> None:
    (caption,) = captions(engine, CaptionItem(image=put_image(store, 0)))
    assert caption.text
    assert "<" not in caption.text
    assert caption.tokens >= 1
    assert math.isfinite(caption.log_likelihood)
    assert caption.log_likelihood < 0


def test_a_caption_does_not_depend_on_its_batch(engine: CaptionerEngine, store: BlobStore) -> None:
    items = [CaptionItem(image=put_image(store, 1)), CaptionItem(image=put_image(store, 2), label="sled")]
    together = captions(engine, *items, CaptionItem(image=put_image(store, 3), label="red boat"))
    for item, shared in zip(items, together, strict=False):
        (alone,) = captions(engine, item)
        assert alone.text == shared.text
        assert alone.log_likelihood == pytest.approx(shared.log_likelihood, abs=1e-4)


@pytest.mark.paper("LANCE-S1-label-caption")
def test_a_labelled_caption_starts_with_its_label(engine: CaptionerEngine, store: BlobStore) -> None:
    (caption,) = captions(engine, CaptionItem(image=put_image(store, 4), label="sled"))
    assert caption.text.startswith("a photo of a sled ")
    (caption,) = captions(engine, CaptionItem(image=put_image(store, 4), label="airplane"))
    assert caption.text.startswith("a photo of an airplane ")


def test_a_generated_caption_and_the_same_given_text_have_equal_likelihood(
    engine: CaptionerEngine, store: BlobStore
) -> None:
    image = put_image(store, 5)
    (caption,) = captions(engine, CaptionItem(image=image))
    request = LogLikelihoodRequest(items=[LogLikelihoodItem(image=image, text=caption.text)])
    (given,) = [outcome.unwrap() for outcome in engine.log_likelihood(request).outcomes]
    assert given.total == pytest.approx(caption.log_likelihood, abs=1e-4)
    assert given.tokens == caption.tokens


def test_likelihood_sums_the_model_s_token_log_probabilities(root: Path, store: BlobStore) -> None:
    engine = CaptionerEngine.load(SUITE, root, store)
    image = put_image(store, 6)
    request = LogLikelihoodRequest(
        items=[
            LogLikelihoodItem(image=image, text=text) for text in ("a red boat", "a red", "a red boat at sea")
        ]
    )
    found = [outcome.unwrap() for outcome in engine.log_likelihood(request).outcomes]
    assert [one.tokens for one in found] == [3, 2, 5]
    assert found[2].total < found[0].total < found[1].total


def test_the_image_changes_the_likelihood_of_a_text(engine: CaptionerEngine, store: BlobStore) -> None:
    items = [LogLikelihoodItem(image=put_image(store, seed), text="a red boat") for seed in (7, 8)]
    first, second = (
        one.unwrap() for one in engine.log_likelihood(LogLikelihoodRequest(items=items)).outcomes
    )
    assert first.total != second.total


@pytest.mark.fault("B4")
def test_bad_images_do_not_affect_others(engine: CaptionerEngine, store: BlobStore) -> None:
    good, broken, missing = put_image(store, 9), store.put(b"no image"), "0" * 64
    request = CaptionRequest(items=[CaptionItem(image=ref) for ref in (broken, good, missing)])
    first, second, third = engine.caption(request).outcomes
    assert code_of(first) == "image-undecodable"
    assert second.value is not None
    assert code_of(third) == "artifact-missing"


def test_png_and_raw_images_get_the_same_caption(engine: CaptionerEngine, store: BlobStore) -> None:
    pixels = np.random.default_rng(10).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    refs = (store.put(encode_png(pixels)), store.put(encode_raw(pixels)))
    first, second = captions(engine, *(CaptionItem(image=ref) for ref in refs))
    assert first.text == second.text
    assert first.log_likelihood == pytest.approx(second.log_likelihood, abs=1e-4)


def test_a_text_over_the_model_s_limit_is_refused(engine: CaptionerEngine, store: BlobStore) -> None:
    item = LogLikelihoodItem(image=put_image(store, 11), text="red " * 60)
    (outcome,) = engine.log_likelihood(LogLikelihoodRequest(items=[item])).outcomes
    assert code_of(outcome) == "prompt-too-long"


def test_nan_outputs_become_problems(root: Path, store: BlobStore) -> None:
    engine = CaptionerEngine.load(SUITE, root, store)
    with torch.no_grad():
        for parameter in engine._model.language_projection.parameters():
            parameter.fill_(math.nan)
    request = LogLikelihoodRequest(items=[LogLikelihoodItem(image=put_image(store, 12), text="a red boat")])
    (outcome,) = engine.log_likelihood(request).outcomes
    assert code_of(outcome) == "bad-backend-output"


@pytest.mark.fault("T15")
def test_pickled_weights_are_refused(tmp_path: Path, store: BlobStore) -> None:
    save_blip2(tmp_path / "captioner")
    (tmp_path / "captioner" / "model.safetensors").rename(tmp_path / "captioner" / "pytorch_model.bin")
    with pytest.raises(ModelFormatRefused):
        CaptionerEngine.load(SUITE, tmp_path, store)


@pytest.mark.parametrize("name", ["absent", "../captioner", "/etc", "a/../../b"])
def test_a_missing_folder_is_an_unknown_model(name: str, root: Path, store: BlobStore) -> None:
    with pytest.raises(UnknownModel, match="model"):
        CaptionerEngine.load(SUITE.model_copy(update={"model": name}), root, store)


def test_different_weights_have_different_identities(
    engine: CaptionerEngine, tmp_path: Path, store: BlobStore
) -> None:
    save_blip2(tmp_path / "captioner")
    same = CaptionerEngine.load(SUITE, tmp_path, store)
    assert same.identity == engine.identity
    config = tmp_path / "captioner" / "generation_config.json"
    config.write_text(config.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert CaptionerEngine.load(SUITE, tmp_path, store).identity.revision != engine.identity.revision


def words_at_most(n: int) -> Callable[[str], bool]:
    return lambda text: len(text.split()) <= n


@pytest.mark.parametrize(
    ("text", "limit", "complete", "kept"),
    [
        ("a boat at sea.", 9, True, "a boat at sea."),
        ("a boat at sea. it rains today", 5, True, "a boat at sea."),
        ("one boat. two trams. three sleds", 4, True, "one boat. two trams."),
        ("a boat, with a red sail on it", 4, True, "a boat"),
        ("a boat at sea and a tram in the snow", 6, True, "a boat at sea"),
        ("a boat. a tram. a", 9, False, "a boat. a tram."),
        ("it costs 3,5 or so. yes", 5, True, "it costs 3,5 or so."),
        ("a boat at", 9, False, "a boat at"),
    ],
)
def test_captions_end_after_a_complete_sentence_or_phrase(
    text: str, limit: int, complete: bool, kept: str
) -> None:
    assert shortened(text, words_at_most(limit), complete=complete) == kept


def test_a_caption_without_a_phrase_that_fits_is_refused() -> None:
    with pytest.raises(PromptTooLong, match="red"):
        shortened("red " * 9, words_at_most(3), complete=True)


@pytest.mark.paper("LANCE-D-caption-77")
def test_a_shortened_caption_fits_and_is_marked_as_shortened(root: Path, store: BlobStore) -> None:
    wordy = SUITE.model_copy(update={"min_tokens": 10, "max_tokens": 16, "repetition_penalty": 2.0})
    items = [CaptionItem(image=put_image(store, 20))]
    (whole,) = captions(CaptionerEngine.load(wordy, root, store), *items)
    (cut,) = captions(
        CaptionerEngine.load(wordy.model_copy(update={"text_limit": whole.tokens - 1}), root, store), *items
    )
    assert cut.shortened
    assert whole.text.startswith(cut.text)
    assert cut.tokens < whole.tokens


def test_captions_depend_on_their_images(root: Path, store: BlobStore) -> None:
    wordy = SUITE.model_copy(update={"min_tokens": 10, "max_tokens": 16, "repetition_penalty": 2.0})
    items = [CaptionItem(image=put_image(store, seed)) for seed in range(30, 42)]
    assert len({caption.text for caption in captions(CaptionerEngine.load(wordy, root, store), *items)}) > 1


def test_only_the_text_without_tokens_is_refused(engine: CaptionerEngine, store: BlobStore) -> None:
    items = [LogLikelihoodItem(image=put_image(store, 13), text=text) for text in (" ", "a red boat")]
    outcomes = engine.log_likelihood(LogLikelihoodRequest(items=items)).outcomes
    assert [code_of(outcome) for outcome in outcomes] == ["invalid-request", None]


def test_an_empty_caption_is_a_problem_for_its_image(
    engine: CaptionerEngine, store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_write", lambda sights: [[3] for _ in sights])
    request = CaptionRequest(items=[CaptionItem(image=put_image(store, seed)) for seed in (14, 15)])
    outcomes = engine.caption(request).outcomes
    assert [code_of(outcome) for outcome in outcomes] == ["bad-backend-output"] * 2


@pytest.mark.paper("BUGS-S3-forced-prompt")
def test_a_caption_goes_on_from_a_given_prefix(engine: CaptionerEngine, store: BlobStore) -> None:
    item = CaptionItem(image=put_image(store, 16), label="sled", prefix="a sketch of a red boat")
    (caption,) = captions(engine, item)
    assert caption.text.startswith("a sketch of a red boat ")


@pytest.mark.paper("BUGS-S3-likelihood")
def test_a_prefix_is_given_and_not_weighed(engine: CaptionerEngine, store: BlobStore) -> None:
    image = put_image(store, 17)
    items = [
        LogLikelihoodItem(image=image, text="a red boat at sea"),
        LogLikelihoodItem(image=image, text="a red boat"),
        LogLikelihoodItem(image=image, prefix="a red boat", text="at sea"),
    ]
    whole, first, rest = (
        one.unwrap() for one in engine.log_likelihood(LogLikelihoodRequest(items=items)).outcomes
    )
    assert rest.tokens == 2
    assert first.total + rest.total == pytest.approx(whole.total, abs=1e-3)
