"""The zoo: twelve training orders on one dataset, and the results of a rehearsal."""

from __future__ import annotations

import json
from pathlib import Path

# Before anything that imports torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split

import pytest
import torch

from counterpose_core.suite import load_suite
from counterpose_miniature.training import zoo
from counterpose_miniature.training.classifier import _training_scenes
from counterpose_miniature.training.classifier_quality import Predictor
from counterpose_miniature.training.stage import StageContext, figures_of
from counterpose_miniature.training.zoo import MEMBERS, Member
from counterpose_miniature.world.seeds import CLASSIFIER
from counterpose_miniature.world.user_dataset import USER_DATASET


def test_the_zoo_has_twelve_members_of_four_architectures() -> None:
    assert len(MEMBERS) == len({member.name for member in MEMBERS}) == 12
    assert len({member.architecture for member in MEMBERS}) == 4
    for architecture in zoo.LENGTHS:
        steps = [member.steps for member in MEMBERS if member.architecture == architecture]
        assert steps == sorted(set(steps))


def test_members_share_images_within_a_seed_but_not_across_seeds() -> None:
    images = [
        {scene.nuisance for scene in _training_scenes(member.order(seed).small())}
        for seed in (0, 1)
        for member in MEMBERS[:2]
    ]
    assert images[0] == images[1]
    assert images[2] == images[3]
    assert not images[0] & images[2]
    assert min(images[0]) >= CLASSIFIER.start + 500 * 100_000
    seeds = [member.order(seed).seed for seed in range(3) for member in MEMBERS]
    assert len(seeds) == len(set(seeds))


def test_the_zoo_is_trained_on_the_user_s_dataset() -> None:
    order = MEMBERS[0].order(0)
    assert order.distribution().given_class == USER_DATASET.given_class
    assert order.distribution().weights == USER_DATASET.weights


def test_a_rehearsal_saves_classifiers_with_their_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = (Member("mambaout", "short", 0), Member("mambaout", "long", 2))
    monkeypatch.setattr(zoo, "MEMBERS", pair)
    context = StageContext(tmp_path / "out", tmp_path / "work", smoke=True, threads=1)
    zoo.train(context)
    folder = tmp_path / "out" / zoo.FOLDER / "zoo-mambaout-long"
    found = json.loads((folder / zoo.METADATA).read_text())
    assert found["architecture"] == "test_mambaout"
    assert (found["steps"], found["resolution"], found["pretraining"]) == (240, 64, "none")
    assert found["parameters"] == sum(each.numel() for each in Predictor(folder)._model.parameters())
    figures = figures_of(context, "zoo/zoo-mambaout-long")
    assert figures is not None
    assert figures["accuracy in distribution"]["n"] == 40
    written = (folder / "model.safetensors").stat().st_mtime_ns
    zoo.train(context)
    assert (folder / "model.safetensors").stat().st_mtime_ns == written


def test_the_command_trains_a_zoo_with_another_seed(tmp_path: Path) -> None:
    given = ["--seed", "3", "--out", str(tmp_path / "a"), "--work", str(tmp_path / "work"), "--smoke"]
    zoo.main([*given, "--only", "zoo-mambaout-short"])
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["zoo-mambaout-short"]
    assert (tmp_path / "a" / "zoo-mambaout-short" / "figures.json").exists()


def test_the_suite_serves_every_member() -> None:
    suite = load_suite("miniature").classifiers.models
    assert {member.name: f"{zoo.FOLDER}/{member.name}" for member in MEMBERS}.items() <= suite.items()


def test_the_suite_s_members_name_their_dataset() -> None:
    root = Path(zoo.__file__).parents[1] / "suite" / "weights" / zoo.FOLDER
    for member in MEMBERS:
        found = json.loads((root / member.name / zoo.METADATA).read_text())
        assert found["steps"] == member.steps
        probabilities = Predictor(root / member.name)(torch.zeros(1, 3, 64, 64))
        assert probabilities.shape == (1, 8)
