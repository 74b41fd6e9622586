"""A scorer without CLIP and the models of text measures preservation, and refuses the rest by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.preservation import PreservationItem, PreservationRequest
from counterpose_core.contract.scorer import (
    EmbedImagesRequest,
    EmbedTextsRequest,
    FillMaskItem,
    FillMaskRequest,
    ScoreItem,
    ScoreRequest,
)
from counterpose_core.errors import UnknownModel
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import ScorerSuite
from counterpose_services.scorer.engine import ScorerEngine


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


@pytest.fixture
def engine(store: BlobStore, tmp_path: Path) -> ScorerEngine:
    """Nothing is read: the folder of weights does not exist."""
    return ScorerEngine.load(ScorerSuite(clip="", sentence="", masked_lm=""), tmp_path / "none", store)


def test_preservation_is_measured_without_any_weights(engine: ScorerEngine, store: BlobStore) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    original, moved = (store.put(encode_raw(each)) for each in (pixels, np.roll(pixels, 6, axis=1)))
    asked = PreservationRequest(items=[PreservationItem(original=original, edited=moved)])
    [outcome] = engine.preservation(asked).outcomes
    assert "moved" in outcome.unwrap().faults


def test_what_needs_a_model_is_refused_by_its_name(engine: ScorerEngine, store: BlobStore) -> None:
    image = store.put(encode_raw(np.zeros((8, 8, 3), dtype=np.uint8)))
    item = ScoreItem(original=image, edited=image, caption="a boat", edited_caption="a bus")
    with pytest.raises(UnknownModel, match="no CLIP"):
        engine.score(ScoreRequest(items=[item]))
    with pytest.raises(UnknownModel, match="no CLIP"):
        engine.embed_images(EmbedImagesRequest(images=[image]))
    with pytest.raises(UnknownModel, match="sentence"):
        engine.embed_texts(EmbedTextsRequest(texts=["a boat"], encoder="sentence"))
    masked = FillMaskItem(text="a boat", position=1, seed=0)
    with pytest.raises(UnknownModel, match="masked language model"):
        engine.fill_mask(FillMaskRequest(items=[masked]))
