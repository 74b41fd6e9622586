"""Predictions computed in this process equal those of the services under test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.classifiers import ClassifyRequest
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import load_suite
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.sampling import DATASET
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from evaluation.paths import SUITE_WEIGHTS
from evaluation.validity import roster
from evaluation.validity.contestants import Contestant
from evaluation.validity.predictors import predicting
from evaluation.validity.sources import scenes_of
from evaluation.validity.truth import CLASSES

ENTRANTS = [*roster.suite_classifiers(), *roster.zero_shot_classifiers()]
SCENES = scenes_of(0, 16, DATASET)


@pytest.mark.parametrize("one", [ENTRANTS[0], ENTRANTS[-1]], ids=lambda one: one.spec)
def test_predictions_of_renderings_match_the_served_engine(one: Contestant, tmp_path: Path) -> None:
    images = np.stack([render(scene) for scene in SCENES])
    with predicting(one) as predict:
        found = predict(images)
    store = BlobStore(str(tmp_path))
    suite = load_suite(roster.SUITE).classifiers
    engine = ClassifiersEngine.load(suite, SUITE_WEIGHTS, store, ClassifierOptions())
    refs = [store.put(encode_raw(image)) for image in images]
    request = ClassifyRequest(classifier=one.spec, images=refs, classes=list(CLASSES))
    served = [outcome.unwrap().probabilities for outcome in engine.classify(request).outcomes]
    np.testing.assert_allclose(found, served, atol=1e-5)


def test_zero_shot_clip_recognises_the_classes_by_its_prompts() -> None:
    with predicting(ENTRANTS[-1]) as predict:
        found = predict(np.stack([render(scene) for scene in SCENES]))
    right = found.argmax(axis=1) == [CLASSES.index(scene.object_class) for scene in SCENES]
    assert right.mean() > 0.8
