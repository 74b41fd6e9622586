"""The scorer measures preservation of stored images, and stores the maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.preservation import PreservationItem, PreservationRequest
from counterpose_core.images.codecs import decode_image, encode_raw
from counterpose_core.suite import ScorerSuite
from counterpose_core.transforms.arrays import Pixels
from counterpose_services.scorer.engine import ScorerEngine
from fakes.textures import textured
from fakes.tiny_models.bert import save_masked_lm, save_sentence_encoder
from fakes.tiny_models.clip import save_clip

SUITE = ScorerSuite(clip="clip", sentence="sentence", masked_lm="masked-lm", batch=3)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite")
    save_clip(folder / "clip")
    save_sentence_encoder(folder / "sentence")
    save_masked_lm(folder / "masked-lm")
    return folder


def test_each_pair_has_its_own_outcome_and_a_map(root: Path, tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path))
    engine = ScorerEngine.load(SUITE, root, store)

    def put(image: Pixels) -> str:
        return store.put(encode_raw(image))

    source = put(textured(1))
    pairs = {
        "unchanged": PreservationItem(original=source, edited=source, control=True),
        "missing": PreservationItem(original=source, edited="0" * 64),
        "moved": PreservationItem(original=source, edited=put(textured(1, shift=(0.06, 0.0))), control=True),
        "tiny": PreservationItem(original=put(np.zeros((8, 8, 3), np.uint8)), edited=source),
    }
    answer = engine.preservation(PreservationRequest(items=list(pairs.values())))
    outcomes = dict(zip(pairs, answer.outcomes, strict=True))
    assert answer.cost.seconds > 0
    assert outcomes["unchanged"].unwrap().faults == []
    assert "moved" in outcomes["moved"].unwrap().faults
    assert outcomes["missing"].problem is not None
    assert outcomes["missing"].problem.code == "artifact-missing"
    assert outcomes["tiny"].unwrap().map is None
    drawn = outcomes["moved"].unwrap().map
    assert drawn is not None
    assert decode_image(store.get(drawn)).shape == (96, 128, 3)
