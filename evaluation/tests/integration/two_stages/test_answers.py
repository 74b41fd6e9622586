"""The answers of the suite's classifiers to images: as rendered truth has them, and computed once."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.images.codecs import encode_raw
from counterpose_miniature.world.renderer import render
from evaluation.tests.fakes.validity import scene
from evaluation.two_stages import answers
from evaluation.two_stages.answers import Answers
from evaluation.two_stages.rosters import SIZE, needed, rosters, rounds
from evaluation.two_stages.validate import roster_names
from evaluation.validity import roster
from evaluation.validity.contestants import BUG_FILES, Contestant
from evaluation.validity.predictors import predicting
from evaluation.validity.truth import CLASSES

SCENES = [scene(nuisance=number) for number in range(3)]


def steady() -> Contestant:
    return next(one for one in roster.suite_classifiers() if one.spec == "unbiased-resnet")


def test_an_answer_is_the_classifiers_own_and_is_computed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, store, pixels = steady(), BlobStore(f"file://{tmp_path}/store"), [render(each) for each in SCENES]
    images = [(store.put(encode_raw(each)), "boat") for each in pixels]
    found = Answers([one], store, tmp_path / "answers").of(images, [one.spec])
    with predicting(one) as predict:
        expected = predict(np.stack(pixels))[:, CLASSES.index("boat")]
    assert [found[image][one.spec].score for image, _ in images] == pytest.approx(expected.tolist())
    monkeypatch.setattr(answers, "predicting", None)
    assert Answers([one], store, tmp_path / "answers").of(images, [one.spec]) == found


def test_each_round_tests_a_control_beside_one_classifier_of_each_bug_file() -> None:
    wanted = roster.trainings(sorted(BUG_FILES.glob("*.json")), Path("models"))
    assert rounds(wanted)["spread-2"] == [
        "local:control-seed101",
        "local:spread-a-seed111",
        "local:spread-b-seed121",
        "local:spread-c-seed131",
    ]
    assert {len(specs) for specs in rounds(wanted).values()} == {SIZE}


def test_rosters_of_classifiers_that_are_not_trained_are_named(tmp_path: Path) -> None:
    found, missing = rosters(tmp_path)
    assert [(one.name, one.specs[0]) for one in found] == [
        ("suite", "unbiased-resnet"),
        ("controls", "unbiased-resnet"),
    ]
    assert missing == ["spread-1", "spread-2", "spread-3"]


def test_only_what_the_rosters_asked_for_need_is_trained() -> None:
    def names(*asked: str) -> list[str]:
        return [training.folder.name for training in needed(asked, Path("models"))]

    assert names("suite") == []
    assert names("suite", "spread-2") == [
        "control-seed101",
        "spread-a-seed111",
        "spread-b-seed121",
        "spread-c-seed131",
    ]
    assert names("controls") == ["control-seed100", "control-seed101", "control-seed102"]


def test_a_roster_that_does_not_exist_is_refused() -> None:
    assert roster_names("suite,controls") == ("suite", "controls")
    with pytest.raises(argparse.ArgumentTypeError, match=r"no roster 'spread-9'; there are suite, spread-1"):
        roster_names("suite,spread-9")
