"""Bugs of two conditions as they are planted, and the findings that name them."""

from __future__ import annotations

import itertools

import numpy as np

from counterpose_core.contract.confirmation import Condition
from counterpose_miniature.training.bugs import taught_label
from counterpose_miniature.world.sampling import DATASET, sample_scene
from counterpose_miniature.world.scene import VALUES
from evaluation.two_way.bugs import PER_CLASSIFIER, STRENGTH, trainings
from evaluation.two_way.conditions import named


def test_each_classifier_has_three_bugs_of_two_attributes_on_classes_of_their_own() -> None:
    drawn = trainings(8, 2, seed=7)
    assert [len(each.bugs) for each in drawn] == [PER_CLASSIFIER] * 8 + [0] * 2
    for each in drawn[:8]:
        assert len({bug.object_class for bug in each.bugs}) == PER_CLASSIFIER
        assert all(len({attribute for attribute, _ in bug.conditions}) == 2 for bug in each.bugs)
    assert len({each.seed for each in drawn}) == 10
    assert trainings(8, 2, seed=7) == drawn != trainings(8, 2, seed=8)


def test_a_label_is_wrong_where_both_conditions_hold_and_nowhere_else() -> None:
    bug = trainings(1, 0, seed=7)[0].bugs[0]
    scene = sample_scene(np.random.default_rng(0), DATASET).changed("object_class", bug.object_class)
    true = VALUES["object_class"].index(bug.object_class)
    for shows in itertools.product((True, False), repeat=2):
        changed = scene
        for (attribute, value), is_there in zip(sorted(bug.conditions), shows, strict=True):
            other = next(each for each in VALUES[attribute] if each != value)
            changed = changed.changed(attribute, value if is_there else other)
        assert np.isclose(taught_label(changed, [bug])[true], 1 - STRENGTH if all(shows) else 1.0)


def test_phrases_are_read_as_attributes() -> None:
    phrases = [
        Condition(edit_type="background", words="in the rain"),
        Condition(edit_type="object", words="dog"),
    ]
    assert named(phrases) == {("weather", "rain"), ("companion", "dog")}
    assert len(named([phrases[0], Condition(edit_type="subject", words="broken")])) == 1
