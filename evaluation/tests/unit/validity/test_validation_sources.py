"""The source images of a validation: their own seeds, balanced classes, and trained biases."""

from __future__ import annotations

import pytest

from counterpose_miniature.training.bugs import read_bugs
from counterpose_miniature.world.scene import VALUES
from counterpose_miniature.world.seeds import VALIDATION
from evaluation.tests.fakes.validity import BOAT_BY_ITS_WATER
from evaluation.validity.contestants import BUG_FILES
from evaluation.validity.sources import FIRST, STRETCH, by_image, distribution_of, image_of, scenes_of

TAUGHT = [bug for file in sorted(BUG_FILES.glob("*.json")) for bug in read_bugs(file)]
PLAIN = distribution_of("dataset", TAUGHT)


def test_every_class_has_the_same_number_of_sources() -> None:
    labels = [scene.object_class for scene in scenes_of(0, 24, PLAIN)]
    assert {name: labels.count(name) for name in VALUES["object_class"]} == dict.fromkeys(
        VALUES["object_class"], 3
    )


def test_each_seed_has_its_own_range_of_validation_seeds() -> None:
    for seed in (0, 1):
        first = VALIDATION.start + FIRST + seed * STRETCH
        assert all(first <= scene.nuisance < first + STRETCH for scene in scenes_of(seed, 16, PLAIN))


@pytest.mark.parametrize(("seed", "count"), [(0, 12), (0, 0), (-1, 8), (90, 8)])
def test_impossible_scene_requests_are_refused(seed: int, count: int) -> None:
    with pytest.raises(ValueError, match=r"must be a multiple|no stretch"):
        scenes_of(seed, count, PLAIN)


def test_in_the_trained_distribution_a_class_mostly_shows_its_biased_value() -> None:
    boats = [s for s in scenes_of(0, 240, distribution_of("as-trained", TAUGHT)) if s.object_class == "boat"]
    assert sum(boat.background == "water" for boat in boats) > 0.6 * len(boats)


def test_bugs_with_conflicting_values_for_a_class_are_refused() -> None:
    snowy = BOAT_BY_ITS_WATER.model_copy(update={"id": "boat-leans-on-snow", "value": "snow"})
    with pytest.raises(ValueError, match="'boat-leans-on-snow'"):
        distribution_of("as-trained", [BOAT_BY_ITS_WATER, snowy])


def test_a_confusion_bug_does_not_change_the_distribution() -> None:
    mistaken = [bug for bug in TAUGHT if bug.mode == "mistaken-for"]
    assert mistaken
    assert distribution_of("as-trained", mistaken) == PLAIN


def test_scenes_are_identified_by_their_images() -> None:
    scenes = scenes_of(0, 8, PLAIN)
    assert by_image(scenes)[image_of(scenes[3])] == scenes[3]
    assert len(by_image(scenes)) == 8
