"""A rehearsal from training to record, and answers that are those of the services' own engine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from counterpose_core.contract.classifiers import ClassifyRequest
from counterpose_core.contract.recipes import Recipe
from counterpose_core.suite import load_suite
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from evaluation.paths import SUITE_WEIGHTS
from evaluation.transforms_validity import running
from evaluation.transforms_validity.planted import CLASSES, SUITE
from evaluation.transforms_validity.report import TransformsValidity
from evaluation.transforms_validity.running import ImageSet, SharedAnswers
from evaluation.transforms_validity.training import Head, Trunk
from evaluation.transforms_validity.validate import Study, main, parsed

SMALL = [
    *("--rehearse", "--seed", "5", "--classifiers", "1", "--controls", "1", "--planted", "4"),
    *("--sizes", "8,16", "--processes", "1", "--draws", "1"),
]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("transforms")
    main([*SMALL, "--state", str(folder), "--out", str(folder / "record.json")])
    return folder


def test_a_rehearsal_judges_every_run_and_what_was_planted(state: Path) -> None:
    made = TransformsValidity.model_validate_json((state / "record.json").read_bytes())
    assert (made.classifiers, made.controls, made.taught, len(made.planted)) == (1, 1, 4, 4)
    assert len(made.runs) == made.planned == 4
    assert {(run.size, run.control) for run in made.runs} == {
        (size, is_) for size in (8, 16) for is_ in (0, 1)
    }
    assert all(run.intervals > 0 for run in made.runs)
    asked = [each.operation for each in made.planted if each.scope == "whole" and len(each.by_level) > 1]
    assert made.failure_points is not None
    assert sorted(each.operation for each in made.failure_points.levels) == sorted(asked)
    assert 0.0 < made.failure_points.asked <= 1.0
    for rows in made.cells.values():
        assert len(rows["darker"]) == 5
        assert len(rows["greyscale"]) == 1
        assert all(len(row) == 1 + len(CLASSES) for each in rows.values() for row in each)


def test_what_is_done_is_not_done_again(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (state / "record.json").read_bytes()
    kept = {
        path: path.stat().st_mtime_ns for path in state.rglob("*") if path.suffix in (".npy", ".safetensors")
    }
    main([*SMALL, "--state", str(state), "--out", str(state / "again.json")])
    assert (state / "again.json").read_bytes() == before
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_shared_answers_are_those_of_the_engine(state: Path) -> None:
    study = Study.of(parsed([*SMALL, "--state", str(state)]))
    training, one = study.truth.training, study.roster[0]
    images = ImageSet(5, 0)
    (source,) = running._sources(running.scenes_of(5, 0, 8)[:1], images.store)
    recipes = [
        Recipe(source.image),
        Recipe(source.image, "gaussian-blur", 3, seed=5),
        Recipe(source.image, "background-grey", 5, seed=5, mask=source.mask),
    ]
    shared = SharedAnswers(
        Trunk(training.trunk_file(0)), {one.name: Head(training.folder / one.name)}, images.store
    )
    engine = ClassifiersEngine.load(
        load_suite(SUITE).classifiers,
        SUITE_WEIGHTS,
        images.store,
        ClassifierOptions(models_folder=training.folder),
    )
    request = ClassifyRequest(classifier=one.name, images=list(map(str, recipes)), classes=sorted(CLASSES))
    answered = asyncio.run(shared.classify(request)).outcomes
    own = engine.classify(request.model_copy(update={"classifier": f"local:{one.name}"})).outcomes
    for left, right in zip(answered, own, strict=True):
        assert np.allclose(left.unwrap().probabilities, right.unwrap().probabilities, atol=1e-5)
        assert left.unwrap().top == right.unwrap().top
