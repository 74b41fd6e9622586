"""The scorer measures preservation of stored images, and stores the maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.preservation import PreservationItem, PreservationRequest
from counterpose_core.contract.regions import EditRegion
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


def test_what_left_a_region_is_told_against_the_unchanged_image_in_its_crop(
    root: Path, tmp_path: Path
) -> None:
    store = BlobStore(str(tmp_path))
    engine = ScorerEngine.load(SUITE, root, store)
    source, other = textured(1), textured(2)
    mask = np.zeros((*source.shape[:2], 3), np.uint8)
    mask[30:70, 40:90] = 255
    # What an editor does to every image: it crops the middle square, and darkens.
    unchanged = source[:, 16:112] // 2
    edited = np.where(mask[:, 16:112] > 0, other[:, 16:112], unchanged)
    known = {"original": source, "edited": edited, "unchanged": unchanged, "mask": mask}
    refs = {name: store.put(encode_raw(image)) for name, image in known.items()}
    region = EditRegion(mask=refs["mask"])
    told = PreservationItem(
        original=refs["original"], edited=refs["edited"], unchanged=refs["unchanged"], region=region
    )
    items = [
        told,
        told.model_copy(update={"unchanged": None}),
        told.model_copy(update={"region": EditRegion(mask=refs["mask"], edits="outside")}),
        told.model_copy(update={"region": EditRegion(mask=refs["edited"])}),
    ]
    *measured, wrong = engine.preservation(PreservationRequest(items=items)).outcomes
    faults = [outcome.unwrap().faults for outcome in measured]
    assert faults[0] == []
    assert {"reshaped", "leaked"} <= set(faults[1])
    assert "leaked" in faults[2]
    assert wrong.problem is not None
    assert "the mask has 96 x 96 pixels, but its image 128 x 96" in wrong.problem.detail
