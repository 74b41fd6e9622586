"""A rehearsal of the segmenter's training: what it saves is what the scorer's segmenter loads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import counterpose_miniature
from counterpose_core.blobs import BlobStore
from counterpose_core.contract.scorer import SegmentItem, SegmentRequest
from counterpose_core.images.codecs import encode_png
from counterpose_core.suite import SegmenterSuite
from counterpose_miniature.training import segmenter
from counterpose_miniature.training.images import generator_scenes
from counterpose_miniature.training.segmenter import overlap
from counterpose_miniature.training.stage import StageContext, figures_of
from counterpose_miniature.world import object_mask, render
from counterpose_miniature.world.seeds import DEVELOPMENT
from counterpose_services.scorer.segmenter import SegmenterEngine

WEIGHTS = Path(counterpose_miniature.__file__).parent / "suite" / "weights"
MODEL = SegmenterSuite(model=segmenter.FOLDER)


def test_a_rehearsal_s_segmenter_loads_and_has_figures(tmp_path: Path) -> None:
    context = StageContext(tmp_path / "out", tmp_path / "work", smoke=True, threads=1)
    segmenter.train(context)
    figures = figures_of(context, "segmenter")
    assert figures is not None
    assert figures["all"]["n"] == 8
    store = BlobStore((tmp_path / "store").as_uri())
    engine = SegmenterEngine.load(MODEL, tmp_path / "out", store)
    image = store.put(encode_png(render(generator_scenes([0], DEVELOPMENT)[0])))
    (outcome,) = engine.segment(SegmentRequest(items=[SegmentItem(image=image, label="boat")])).outcomes
    assert 0.0 <= outcome.unwrap().share <= 1.0


def test_the_suite_s_segmenter_overlaps_exact_masks_by_nine_tenths(tmp_path: Path) -> None:
    store = BlobStore((tmp_path / "store").as_uri())
    engine = SegmenterEngine.load(MODEL, WEIGHTS, store)
    scenes = generator_scenes(range(40), DEVELOPMENT)
    items = []
    for scene in scenes:
        exact = np.repeat(np.where(object_mask(scene) >= 0.5, 255, 0).astype(np.uint8)[:, :, None], 3, axis=2)
        images = [store.put(encode_png(pixels)) for pixels in (render(scene), exact)]
        items.append(SegmentItem(image=images[0], label=scene.object_class, exact=images[1]))
    found = [each.unwrap().overlap for each in engine.segment(SegmentRequest(items=items)).outcomes]
    assert np.mean([value or 0.0 for value in found]) >= 0.88


@pytest.mark.parametrize(
    ("other", "value"), [((0, 0, 2, 2), 1.0), ((0, 1, 2, 3), 1 / 3), ((3, 3, 3, 3), 0.0)]
)
def test_the_overlap_of_masks(other: tuple[int, int, int, int], value: float) -> None:
    mask, second = np.zeros((4, 4), bool), np.zeros((4, 4), bool)
    mask[:2, :2] = True
    second[other[0] : other[2], other[1] : other[3]] = True
    assert overlap(second, mask) == pytest.approx(value)
