"""Classifiers make images of their recipes: they answer as to the images that others make and store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.recipes import IDENTITY, PLACEBO, Recipe
from counterpose_core.image_recipes import digest_of_pixels, made
from counterpose_core.images.codecs import encode_raw
from counterpose_services.classifiers.engine import ClassifiersEngine
from evaluation.reference.same_answers import FLOAT32
from fakes.tiny_classifiers import ask, code_of, predictions, put_image

pytestmark = pytest.mark.floats


@pytest.mark.parametrize("classifier", ["resnet", "zero-shot"])
def test_a_recipe_is_answered_as_the_image_that_it_makes(
    classifier: str, engine: ClassifiersEngine, store: BlobStore
) -> None:
    source = put_image(store, 0)
    recipes = [
        Recipe(source, IDENTITY, size=20),
        Recipe(source, PLACEBO, seed=3),
        Recipe(source, "rotation", level=2, size=None),
        Recipe(source, "gaussian-noise", level=5, seed=4),
    ]
    stored = [store.put(encode_raw(made(each, store.get))) for each in recipes]
    expected = [each.probabilities for each in predictions(ask(engine, classifier, stored))]
    answers = predictions(ask(engine, classifier, [str(each) for each in recipes]))
    found = [each.probabilities for each in answers]
    # What it made can be compared with what others make of the recipe.
    assert [each.pixels for each in answers] == [digest_of_pixels(made(each, store.get)) for each in recipes]
    assert [each.pixels for each in predictions(ask(engine, classifier, stored))] == [None] * len(stored)
    np.testing.assert_allclose(found, expected, atol=FLOAT32, rtol=0.0)
    assert len({tuple(np.round(row, 6)) for row in expected}) > 1


def test_answers_to_recipes_are_not_kept(engine: ClassifiersEngine, store: BlobStore, tmp_path: Path) -> None:
    source = put_image(store, 0)

    def files() -> int:
        return sum(path.is_file() for path in tmp_path.rglob("*"))

    before = files()
    predictions(ask(engine, "resnet", [str(Recipe(source, "rotation", level=2))]))
    assert files() == before
    predictions(ask(engine, "resnet", [source]))
    assert files() > before


def test_a_recipe_that_cannot_be_made_fails_alone(engine: ClassifiersEngine, store: BlobStore) -> None:
    source = put_image(store, 0)
    asked = [source, str(Recipe(source, "rotatoin", level=1)), str(Recipe("ab" * 32, "rotation", level=1))]
    outcomes = ask(engine, "resnet", asked).outcomes
    assert [code_of(each) for each in outcomes] == [None, "invalid-request", "artifact-missing"]
