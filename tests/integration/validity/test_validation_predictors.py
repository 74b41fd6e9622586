"""What contestants make of renderings in this process: the same as the services that are tested."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from faultline_core.blobs import BlobStore
from faultline_core.contract.classifiers import ClassifyRequest
from faultline_core.images import encode_raw
from faultline_core.suite import load_suite
from faultline_miniature.world.renderer import render
from faultline_miniature.world.sampling import DATASET
from faultline_services.classifiers.engine import ClassifiersEngine
from faultline_services.classifiers.options import ClassifierOptions
from validation import roster
from validation.contestants import Contestant
from validation.predictors import predicting
from validation.sources import scenes_of
from validation.truth import CLASSES

ENTRANTS = [*roster.suite_classifiers(), *roster.zero_shot_classifiers()]
SCENES = scenes_of(0, 16, DATASET)


@pytest.mark.parametrize("one", [ENTRANTS[0], ENTRANTS[-1]], ids=lambda one: one.spec)
def test_renderings_are_answered_as_the_served_engine_answers(one: Contestant, tmp_path: Path) -> None:
    pictures = np.stack([render(scene) for scene in SCENES])
    with predicting(one) as predict:
        found = predict(pictures)
    store = BlobStore(str(tmp_path))
    suite = load_suite(roster.SUITE).classifiers
    engine = ClassifiersEngine.load(suite, roster.SUITE_WEIGHTS, store, ClassifierOptions())
    refs = [store.put(encode_raw(picture)) for picture in pictures]
    request = ClassifyRequest(classifier=one.spec, images=refs, classes=list(CLASSES))
    served = [outcome.unwrap().probabilities for outcome in engine.classify(request).outcomes]
    np.testing.assert_allclose(found, served, atol=1e-5)


def test_zero_shot_clip_knows_the_classes_by_its_prompts() -> None:
    with predicting(ENTRANTS[-1]) as predict:
        found = predict(np.stack([render(scene) for scene in SCENES]))
    right = found.argmax(axis=1) == [CLASSES.index(scene.object_class) for scene in SCENES]
    assert right.mean() > 0.8
