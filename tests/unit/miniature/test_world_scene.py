"""Scenes, their distributions and their seeds."""

from itertools import pairwise

import numpy as np
import pytest

from counterpose_miniature.world.sampling import (
    DATASET,
    GENERATOR,
    MISMATCHED,
    UNIFORM,
    Distribution,
    sample_scene,
)
from counterpose_miniature.world.scene import ATTRIBUTES, VALUES, WITHHELD, Scene, is_withheld
from counterpose_miniature.world.seeds import (
    DEVELOPMENT,
    SPLITS,
    TRAINING,
    SeedRange,
    scene_for,
)

BUS = Scene("bus", "plain", "red", "road", "clear", "photo", "none", nuisance=7)


def test_changed_replaces_only_one_attribute() -> None:
    after = BUS.changed("background", "snow")
    assert after.background == "snow"
    assert after.changed("background", "road") == BUS


@pytest.mark.parametrize(("attribute", "value"), [("nuisance", "3"), ("size", "big"), ("colour", "pink")])
def test_changed_refuses_invalid_attributes(attribute: str, value: str) -> None:
    with pytest.raises(ValueError, match="must be one of"):
        BUS.changed(attribute, value)


def test_a_negative_nuisance_is_refused() -> None:
    with pytest.raises(ValueError, match="nuisance"):
        Scene(**BUS.attributes(), nuisance=-1)


def test_attributes_are_in_order() -> None:
    assert tuple(BUS.attributes()) == ATTRIBUTES


@pytest.mark.parametrize(("object_class", "attribute", "value"), WITHHELD)
def test_withheld_combinations_name_real_values(object_class: str, attribute: str, value: str) -> None:
    scene = BUS.changed("object_class", object_class)
    assert is_withheld(scene.changed(attribute, value))
    other = next(candidate for candidate in VALUES[attribute] if candidate != value)
    assert not is_withheld(scene.changed(attribute, other).changed("background", "water"))


def test_the_generator_never_sees_a_withheld_scene() -> None:
    generator = np.random.default_rng(0)
    assert not any(is_withheld(sample_scene(generator, GENERATOR)) for _ in range(3000))
    assert any(is_withheld(sample_scene(generator, UNIFORM)) for _ in range(300))


def test_the_dataset_shows_mismatched_classes_in_their_dataset_kind() -> None:
    generator = np.random.default_rng(1)
    scenes = [sample_scene(generator, DATASET) for _ in range(3000)]
    kinds = [scene.kind == "special" for scene in scenes if scene.object_class in MISMATCHED]
    others = [scene.kind == "special" for scene in scenes if scene.object_class not in MISMATCHED]
    assert np.mean(kinds) == pytest.approx(0.95, abs=0.03)
    assert np.mean(others) == pytest.approx(0.4, abs=0.05)


def test_every_value_is_sampled() -> None:
    generator = np.random.default_rng(2)
    scenes = [sample_scene(generator, GENERATOR) for _ in range(500)]
    for attribute, values in VALUES.items():
        assert {getattr(scene, attribute) for scene in scenes} == set(values)


@pytest.mark.parametrize("table", [{"pink": 1.0}, {"red": 0.0}, {"red": 2.0, "blue": -1.0}])
def test_weights_must_be_a_distribution_over_known_values(table: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="not a distribution"):
        Distribution(weights={"colour": table})
    with pytest.raises(ValueError, match="not a distribution"):
        Distribution(given_class={("bus", "colour"): table})


def test_splits_share_no_seed() -> None:
    ordered = sorted(SPLITS, key=lambda split: split.start)
    assert [left.name for left, right in pairwise(ordered) if right.start < left.stop] == []


@pytest.mark.parametrize(("start", "stop"), [(5, 5), (-1, 4)])
def test_an_empty_or_negative_split_is_refused(start: int, stop: int) -> None:
    with pytest.raises(ValueError, match="empty or negative"):
        SeedRange("bad", start, stop)


def test_an_index_outside_a_split_is_refused() -> None:
    assert TRAINING.seed(len(TRAINING) - 1) == TRAINING.stop - 1
    for index in (-1, len(TRAINING)):
        with pytest.raises(IndexError, match="training"):
            TRAINING.seed(index)


def test_a_single_scene_of_a_split_can_be_regenerated() -> None:
    scene = scene_for(DEVELOPMENT, 12, GENERATOR)
    assert scene == scene_for(DEVELOPMENT, 12, GENERATOR)
    assert scene.nuisance == DEVELOPMENT.start + 12
    assert scene != scene_for(DEVELOPMENT, 13, GENERATOR)
