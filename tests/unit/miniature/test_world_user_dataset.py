"""The user's dataset of interfaces: its mismatches, its seed ranges."""

from __future__ import annotations

from collections import Counter

import pytest

from counterpose_miniature.world.scene import VALUES
from counterpose_miniature.world.seeds import DEVELOPMENT, VALIDATION
from counterpose_miniature.world.user_dataset import (
    FIRST_SEED,
    MISMATCHED_CLASSES,
    MISMATCHES,
    STRETCH,
    USER_DATASET,
    interface_scenes,
)


def test_three_kinds_of_mismatch_and_at_least_four_matched_classes() -> None:
    assert {each.sort for each in MISMATCHES} == {"contents", "colour", "framing"}
    assert len(set(VALUES["object_class"]) - set(MISMATCHED_CLASSES)) >= 4
    assert set(MISMATCHED_CLASSES) < set(VALUES["object_class"])


def test_nearly_every_image_of_a_mismatched_class_shows_its_mismatch() -> None:
    scenes = list(interface_scenes(DEVELOPMENT, 0, 60))
    for each in MISMATCHES:
        mine = [scene.attributes() for scene in scenes if scene.object_class == each.object_class]
        assert sum(each.shown_by(scene) for scene in mine) >= 54


def test_a_colour_mismatch_is_rare_on_other_classes() -> None:
    (tram,) = (each for each in MISMATCHES if each.sort == "colour")
    others = dict(zip(VALUES["colour"], USER_DATASET.probabilities("colour", "bus"), strict=True))
    assert others[tram.value] < 0.05


def test_every_shift_is_rare_but_present_in_the_dataset() -> None:
    for attribute, value in (("background", "flowers"), ("weather", "night"), ("style", "sketch")):
        odds = dict(zip(VALUES[attribute], USER_DATASET.probabilities(attribute, "bus"), strict=True))
        assert 0.0 < odds[value] < 0.02


def test_ranges_parts_and_splits_share_no_seed() -> None:
    images = [
        {scene.nuisance for scene in interface_scenes(split, number, 6, part=part)}
        for split, number, part in (
            (DEVELOPMENT, 0, 0),
            (DEVELOPMENT, 0, 1),
            (DEVELOPMENT, 1, 0),
            (VALIDATION, 0, 0),
        )
    ]
    assert sum(map(len, images)) == len(set().union(*images))
    assert min(images[2]) >= DEVELOPMENT.start + FIRST_SEED + STRETCH
    assert Counter(scene.object_class for scene in interface_scenes(DEVELOPMENT, 0, 6)) == Counter(
        dict.fromkeys(VALUES["object_class"], 6)
    )


@pytest.mark.parametrize(("number", "part"), [(-1, 0), (40, 0), (0, 10), (0, -1)])
def test_an_unknown_range_of_seeds_is_refused(number: int, part: int) -> None:
    with pytest.raises(ValueError, match="no stretch"):
        next(interface_scenes(DEVELOPMENT, number, 1, part=part))
