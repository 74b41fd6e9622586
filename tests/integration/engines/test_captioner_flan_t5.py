"""The captioner on a tiny random BLIP-2 whose language model is an encoder and a decoder, as Flan-T5 is."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, Blip2ForConditionalGeneration

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.captioner import (
    Caption,
    CaptionItem,
    CaptionRequest,
    LogLikelihood,
    LogLikelihoodItem,
    LogLikelihoodRequest,
)
from counterpose_core.errors import PromptTooLong
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import CaptionerSuite
from counterpose_services.captioner.engine import CaptionerEngine
from fakes.tiny_models.blip2 import QUERIES, save_blip2

pytestmark = pytest.mark.floats

NAME = "flan-t5-captioner"
SUITE = CaptionerSuite(
    model=NAME, beams=3, min_tokens=2, max_tokens=6, labelled_prefix="a photo of a {label}", batch=4
)
TEXTS = ("a red boat", "a red", "a red boat at sea")


@pytest.fixture(scope="module")
def root(models: Path) -> Path:
    save_blip2(models / NAME, encoder=True)
    return models


@pytest.fixture(scope="module")
def engine(root: Path, store: BlobStore) -> CaptionerEngine:
    return CaptionerEngine.load(SUITE, root, store)


def put_image(store: BlobStore, seed: int) -> str:
    patches = np.random.default_rng(seed).integers(0, 256, (3, 3, 3), dtype=np.uint8)
    return store.put(encode_raw(patches.repeat(7, axis=0).repeat(8, axis=1)))


def captions(engine: CaptionerEngine, *items: CaptionItem) -> list[Caption]:
    return [outcome.unwrap() for outcome in engine.caption(CaptionRequest(items=list(items))).outcomes]


def weigh(engine: CaptionerEngine, image: str, *texts: str, prefix: str = "") -> list[LogLikelihood]:
    items = [LogLikelihoodItem(image=image, text=text, prefix=prefix) for text in texts]
    return [one.unwrap() for one in engine.log_likelihood(LogLikelihoodRequest(items=items)).outcomes]


def test_a_caption_goes_on_from_its_label_and_can_be_weighed(
    engine: CaptionerEngine, store: BlobStore
) -> None:
    image = put_image(store, 4)
    (caption,) = captions(engine, CaptionItem(image=image, label="sled"))
    assert caption.text.startswith("a photo of a sled ")
    assert "<" not in caption.text
    (given,) = weigh(
        engine, image, caption.text.removeprefix("a photo of a sled "), prefix="a photo of a sled"
    )
    assert given.total == pytest.approx(caption.log_likelihood, abs=1e-4)
    assert (given.tokens, given.total < 0, math.isfinite(given.total)) == (caption.tokens, True, True)


def test_captions_depend_on_their_images_and_on_nothing_else_in_the_batch(
    engine: CaptionerEngine, store: BlobStore
) -> None:
    images = [put_image(store, seed) for seed in range(8)]
    together = captions(engine, *(CaptionItem(image=image) for image in images[:4]))
    for image, shared in zip(images[:4], together, strict=True):
        (alone,) = captions(engine, CaptionItem(image=image), CaptionItem(image=images[5], label="red boat"))[
            :1
        ]
        assert alone.text == shared.text
        assert alone.log_likelihood == pytest.approx(shared.log_likelihood, abs=1e-4)
    assert len({caption.log_likelihood for caption in together}) > 1


def test_the_likelihood_is_that_of_the_decoder_s_own_labels(
    engine: CaptionerEngine, root: Path, store: BlobStore
) -> None:
    """transformers' loss over the same labels: their mean negative log-likelihood."""
    image, prefix = put_image(store, 6), "a photo of"
    found = weigh(engine, image, *TEXTS, prefix=prefix)
    model = Blip2ForConditionalGeneration.from_pretrained(root / NAME, use_safetensors=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(root / NAME)
    pixels = engine._sight(image, prefix).pixels[None]
    marks = [model.config.image_token_index] * QUERIES
    ids = torch.tensor([[*marks, *tokenizer(prefix)["input_ids"]]])
    for text, likelihood in zip(TEXTS, found, strict=True):
        labels = torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])
        with torch.no_grad():
            loss = model(pixel_values=pixels, input_ids=ids, labels=labels).loss
        assert likelihood.tokens == labels.shape[1]
        assert likelihood.total == pytest.approx(-float(loss) * labels.shape[1], abs=1e-4)


def test_a_prefix_changes_what_is_likely_and_is_not_weighed_itself(
    engine: CaptionerEngine, store: BlobStore
) -> None:
    image = put_image(store, 7)
    (alone,), (after,) = (
        weigh(engine, image, "red boat"),
        weigh(engine, image, "red boat", prefix="a photo of"),
    )
    assert alone.tokens == after.tokens == 2
    assert alone.total != pytest.approx(after.total, abs=1e-6)


def test_a_text_over_the_limit_is_refused(engine: CaptionerEngine, store: BlobStore) -> None:
    with pytest.raises(PromptTooLong, match="more than the captioner reads"):
        weigh(engine, put_image(store, 0), " ".join(["red"] * 600))
