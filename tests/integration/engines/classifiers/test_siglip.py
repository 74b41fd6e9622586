"""SigLIP as a zero-shot classifier: its own tokenizer and pooling, its bias, and texts that are too long."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch

from counterpose_core.blobs import BlobStore
from counterpose_core.errors import ClassMapMismatch, PromptTooLong
from counterpose_core.images.codecs import decode_image
from counterpose_core.suite import ClassifiersSuite
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.zero_shot import prompt_of
from counterpose_services.models.clip_encoder import ClipEncoder
from fakes.tiny_classifiers import CLASSES, ask, predictions, put_image
from fakes.tiny_models.clip import CONTEXT, save_siglip

SUITE = ClassifiersSuite(zero_shot={"siglip": "siglip"}, batch=2)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_siglip(folder / "siglip")
    return folder


def test_siglip_ranks_classes_as_its_own_logits_do(root: Path, tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path))
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions())
    images = [put_image(store, seed) for seed in range(3)]
    found = [one.probabilities for one in predictions(ask(engine, "siglip", images))]
    assert np.allclose(np.sum(found, axis=1), 1.0, atol=1e-5)

    location = f"local-dir:{root / 'siglip'}"
    model = open_clip.create_model(location, require_pretrained=True).eval()
    assert model.logit_bias is not None
    tokens = open_clip.get_tokenizer(location)([prompt_of(name) for name in CLASSES])
    encoder = ClipEncoder(root / "siglip")
    shown = torch.stack([encoder.read_image(_pixels(store, image)) for image in images])
    with torch.inference_mode():
        sight, words, scale, bias = model(shown, tokens)
    logits = scale * sight @ words.T + bias
    assert np.allclose(found, logits.softmax(-1).detach().numpy(), atol=1e-4)


def _pixels(store: BlobStore, image: str) -> np.ndarray:
    return decode_image(store.get(image))


def test_a_text_that_siglip_would_shorten_is_refused(root: Path) -> None:
    encoder = ClipEncoder(root / "siglip")
    # Two marks stand around the words.
    fits = " ".join(["boat"] * (CONTEXT - 2))
    assert encoder.read_text(fits).shape == (CONTEXT,)
    for more in (1, 2, 9):
        with pytest.raises(PromptTooLong):
            encoder.read_text(fits + " boat" * more)


def test_a_class_with_too_long_a_name_is_refused(root: Path, tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path))
    engine = ClassifiersEngine.load(SUITE, root, store, ClassifierOptions())
    with pytest.raises(ClassMapMismatch, match="does not make a usable prompt"):
        ask(engine, "siglip", [put_image(store, 0)], ("boat", " ".join(["boat"] * CONTEXT)))
