"""The contents of user datasets, what the generator learnt, and the seeds of both."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from counterpose_miniature.world import __main__ as command
from counterpose_miniature.world import seeds
from counterpose_miniature.world.dataset import encode_png, write_image_folder
from counterpose_miniature.world.grammar import caption, class_name, parse
from counterpose_miniature.world.renderer import object_mask, render
from counterpose_miniature.world.sampling import (
    DATASET,
    FREE_NUISANCE,
    GENERATOR,
    MISMATCHED,
    UNIFORM,
    Distribution,
    sample_scene,
)
from counterpose_miniature.world.scene import VALUES, WITHHELD, Scene, is_withheld
from counterpose_miniature.world.seeds import DEVELOPMENT, SPLITS, balanced_scenes, scene_for
from fakes.rendered_folders import read_metadata


def apart(object_class: str) -> float:
    """Total variation between dataset and generator over the kinds of a class."""
    mine, theirs = (each.probabilities("kind", object_class) for each in (DATASET, GENERATOR))
    return float(np.abs(mine - theirs).sum() / 2)


def test_at_least_three_classes_differ_between_dataset_and_generator() -> None:
    distances = {name: apart(name) for name in VALUES["object_class"]}
    assert {name for name, distance in distances.items() if distance > 0.5} == set(MISMATCHED)
    assert len(MISMATCHED) >= 3
    assert all(distances[name] == 0 for name in VALUES["object_class"] if name not in MISMATCHED)


@pytest.mark.parametrize("object_class", MISMATCHED)
def test_the_name_of_a_mismatched_class_means_its_plain_kind(object_class: str) -> None:
    assert parse(f"a {class_name(object_class)}")["kind"] == "plain"
    odds = dict(zip(VALUES["kind"], GENERATOR.probabilities("kind", object_class), strict=True))
    assert odds["plain"] > odds["special"]


@pytest.mark.parametrize("object_class", MISMATCHED)
def test_a_mismatch_is_visible_in_the_image(object_class: str) -> None:
    plain = Scene(object_class, "plain", "red", "sand", "clear", "photo", "none", nuisance=3)
    special = plain.changed("kind", "special")
    either = (object_mask(plain) > 0) | (object_mask(special) > 0)
    changed = np.abs(render(plain).astype(int) - render(special)).max(axis=2) > 40
    assert float(changed[either].mean()) > 0.15


def test_other_attributes_have_the_same_distribution_in_dataset_and_generator() -> None:
    for name in set(VALUES) - {"kind"}:
        mine, theirs = (each.probabilities(name, "plate") for each in (DATASET, GENERATOR))
        assert mine == pytest.approx(theirs)


def test_the_dataset_contains_scenes_the_generator_never_saw() -> None:
    generator = np.random.default_rng(0)
    seen = [sample_scene(generator, DATASET) for _ in range(500)]
    for object_class, attribute, value in WITHHELD:
        assert any(s.object_class == object_class and getattr(s, attribute) == value for s in seen)


def test_rejection_sampling_preserves_the_remaining_proportions() -> None:
    generator = np.random.default_rng(1)
    seen = [sample_scene(generator, GENERATOR) for _ in range(800)]
    sleds = [s.background for s in seen if s.object_class == "sled"]
    counts = [sleds.count(name) for name in VALUES["background"] if name != "sand"]
    assert sleds.count("sand") == 0
    assert min(counts) / len(sleds) > 0.08
    assert 0.32 < np.mean([s.companion == "none" for s in seen]) < 0.48


def test_free_scenes_lie_outside_every_split() -> None:
    assert max(split.stop for split in SPLITS) <= FREE_NUISANCE[0]
    generator = np.random.default_rng(2)
    for _ in range(20):
        nuisance = sample_scene(generator, UNIFORM).nuisance
        assert not any(split.start <= nuisance < split.stop for split in SPLITS)


def test_a_split_is_a_named_contiguous_range_of_seeds() -> None:
    assert len({split.name for split in SPLITS}) == len(SPLITS)
    for split in SPLITS:
        first, last = scene_for(split, 0, UNIFORM), scene_for(split, len(split) - 1, UNIFORM)
        assert (first.nuisance, last.nuisance) == (split.start, split.stop - 1)


def test_a_balanced_folder_has_equal_classes_and_can_be_continued() -> None:
    first = list(balanced_scenes(DEVELOPMENT, DATASET, 2))
    assert sorted(scene.object_class for scene in first) == sorted(VALUES["object_class"] * 2)
    assert [scene.nuisance for scene in first] == sorted(scene.nuisance for scene in first)
    later = list(balanced_scenes(DEVELOPMENT, DATASET, 2, start=10_000))
    assert not {scene.nuisance for scene in first} & {scene.nuisance for scene in later}


def test_a_class_that_is_never_sampled_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "MAX_DRAWS_PER_IMAGE", 3)
    only_boats = Distribution(weights={"object_class": {"boat": 1.0}})
    with pytest.raises(ValueError, match="'tram'"):
        list(balanced_scenes(DEVELOPMENT, only_boats, 1))


def test_the_command_writes_a_labelled_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = [str(tmp_path), "--per-class", "1", "--distribution", "generator", "--start", "40"]
    monkeypatch.setattr(sys, "argv", ["world", *arguments])
    command.main()
    scenes = read_metadata(tmp_path)
    assert sorted(scene.object_class for scene in scenes.values()) == sorted(VALUES["object_class"])
    assert min(scene.nuisance for scene in scenes.values()) >= DEVELOPMENT.start + 40
    assert not any(is_withheld(scene) for scene in scenes.values())
    assert {name.split("/")[0] for name in scenes} == set(VALUES["object_class"])


def test_the_same_scene_gives_the_same_file_name_and_bytes(tmp_path: Path) -> None:
    scene = scene_for(DEVELOPMENT, 3, DATASET)
    (one,), (other,) = (write_image_folder(tmp_path / name, [scene]) for name in ("one", "other"))
    assert one.name == other.name
    assert one.read_bytes() == other.read_bytes() == encode_png(render(scene))
    assert caption(scene) in (tmp_path / "one" / "metadata.jsonl").read_text()
