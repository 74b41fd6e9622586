"""Training of the scorer's CLIP: its texts, losses and saved folder."""

from __future__ import annotations

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import pytest
import torch

from counterpose_miniature import world
from counterpose_miniature.training import clip
from counterpose_miniature.training.spoken import held, part, reworded, whole
from counterpose_miniature.world.grammar import tokens, words
from counterpose_miniature.world.seeds import CLASSIFIER, DEVELOPMENT, TRAINING

SCENES = [world.scene_for(DEVELOPMENT, index, world.GENERATOR) for index in range(200)]


def test_every_text_matches_its_image_and_the_vocabulary() -> None:
    generator = np.random.default_rng(0)
    vocabulary = set(words())
    for scene in SCENES:
        for spoken in (whole(scene, generator), part(scene, generator)):
            assert not (held(scene) & ~spoken.allows).any(), spoken.text
            assert set(tokens(spoken.text)) <= vocabulary, spoken.text


def test_a_text_does_not_match_images_that_contradict_it() -> None:
    generator = np.random.default_rng(1)
    for one, other in zip(SCENES, reversed(SCENES), strict=True):
        spoken = part(one, generator)
        read = world.parse(spoken.text)
        named = {name: value for name, value in read.items() if value not in ("none", "clear", "plain")}
        fits = not (held(other) & ~spoken.allows).any()
        if any(getattr(other, name) != value for name, value in named.items()):
            assert not fits, spoken.text


def test_a_feature_of_two_classes_matches_only_those_two() -> None:
    double = next(scene for scene in SCENES if scene.object_class == "bus" and scene.kind == "special")
    texts = [part(double, np.random.default_rng(seed)) for seed in range(200)]
    spoken = next(each for each in texts if each.text == "double-decker")
    fitting = {
        scene.object_class
        for scene in [double.changed("object_class", name) for name in world.VALUES["object_class"]]
        if not (held(scene) & ~spoken.allows).any()
    }
    assert fitting == {"bus", "tram"}


def test_partial_texts_omit_style_colour_or_background() -> None:
    generator = np.random.default_rng(2)
    for scene in SCENES:
        read = world.parse(part(scene, generator).text)
        assert not {"style", "colour", "background"} <= set(read)


def test_rewording_keeps_the_meaning() -> None:
    generator = np.random.default_rng(3)
    for scene in SCENES[:50]:
        assert world.parse(reworded(world.caption(scene), generator)) == world.parse(world.caption(scene))


def test_pairs_differ_in_one_attribute_and_are_not_withheld() -> None:
    scenes = clip.paired_scenes(800, seed=0)
    assert not any(world.is_withheld(scene) for scene in scenes)
    for base, changed in zip(scenes[0::2], scenes[1::2], strict=True):
        differing = [name for name in world.ATTRIBUTES if getattr(base, name) != getattr(changed, name)]
        assert len(differing) == 1
        assert base.nuisance == changed.nuisance
    assert clip.paired_scenes(800, seed=0) == scenes


def test_the_contrastive_loss_counts_every_matching_text_as_positive() -> None:
    rows = torch.eye(3)
    scale = torch.tensor(20.0)
    alone = clip.contrastive_loss(rows, rows, scale, torch.eye(3, dtype=torch.bool))
    shared = torch.tensor([[True, True, False], [True, True, False], [False, False, True]])
    assert float(alone) < 1e-6
    together = clip.contrastive_loss(rows, rows[[0, 0, 2]], scale, shared)
    apart = clip.contrastive_loss(rows, rows, scale, shared)
    assert float(together) != pytest.approx(float(apart))
    assert float(apart) > float(alone)


def test_the_directional_loss_falls_when_images_move_with_their_captions() -> None:
    texts = torch.eye(4)
    alike = torch.tensor([True, False])
    assert float(clip.directional_loss(texts, texts, alike)) == pytest.approx(0.0, abs=1e-6)
    swapped = texts[[1, 0, 2, 3]]
    assert float(clip.directional_loss(swapped, texts, alike)) == pytest.approx(2.0, abs=1e-6)
    assert float(clip.directional_loss(swapped, texts, torch.tensor([False, False]))) == 0.0


def test_scenes_of_the_pairs_are_training_scenes() -> None:
    found: world.Scene = clip.paired_scenes(1, seed=0)[0]
    assert found.nuisance < DEVELOPMENT.start


def test_clip_trains_on_a_seed_range_of_its_own() -> None:
    nuisances = {scene.nuisance for scene in clip.paired_scenes(8, seed=0)}
    assert min(nuisances) >= TRAINING.start + 10_000_000
    assert max(nuisances) < TRAINING.stop <= CLASSIFIER.start
