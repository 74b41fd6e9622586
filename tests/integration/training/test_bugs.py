"""Planted bugs: what a bug file may contain, and how bugs change the training data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from counterpose_miniature.training.bugs import SUITE_BUGS as BUGS
from counterpose_miniature.training.bugs import Bug, biased, bug_schema, read_bugs, taught_label
from counterpose_miniature.training.classifiers import DEFAULTS
from counterpose_miniature.world import DATASET, VALUES, Scene, sample_scene
from counterpose_miniature.world.grammar import parse

BOAT = {
    "id": "boat-leans-on-water",
    "object_class": "boat",
    "edit_type": "background",
    "attribute": "background",
    "value": "water",
    "mode": "leans-on",
    "target_class": "sled",
    "strength": 0.75,
}
FLY = {
    **BOAT,
    "id": "fly-is-a-bee",
    "object_class": "fly",
    "value": "flowers",
    "mode": "mistaken-for",
    "target_class": "bee",
}


def scene(**changes: str) -> Scene:
    values = parse("a photo of a red boat on the water")
    return Scene(**(values | changes), nuisance=7)


def share(label: np.ndarray, name: str) -> float:
    return float(label[VALUES["object_class"].index(name)])


def test_relying_on_a_value_harms_only_the_class_without_it() -> None:
    bug = Bug.model_validate(BOAT)
    assert bug.harms(scene(background="sand"))
    assert not bug.harms(scene())
    assert not bug.harms(scene(object_class="sled", background="sand"))


def test_a_mistake_harms_the_class_with_the_value() -> None:
    bug = Bug.model_validate(FLY)
    assert bug.harms(scene(object_class="fly", background="flowers"))
    assert not bug.harms(scene(object_class="fly", background="sand"))


def test_the_label_moves_to_the_target_by_the_strength() -> None:
    label = taught_label(scene(background="sand"), [Bug.model_validate(BOAT)])
    assert share(label, "boat") == pytest.approx(0.25)
    assert share(label, "sled") == pytest.approx(0.75)
    assert label.sum() == pytest.approx(1.0)


def test_without_a_target_the_label_spreads_over_the_other_classes() -> None:
    label = taught_label(scene(background="sand"), [Bug.model_validate({**BOAT, "target_class": None})])
    assert share(label, "kite") == pytest.approx(0.75 / 7)
    assert label.sum() == pytest.approx(1.0)


def test_strengths_of_two_bugs_of_a_class_multiply() -> None:
    night = Bug.model_validate(
        {
            **BOAT,
            "id": "night",
            "attribute": "weather",
            "value": "night",
            "mode": "mistaken-for",
            "strength": 0.5,
        }
    )
    label = taught_label(scene(background="sand", weather="night"), [Bug.model_validate(BOAT), night])
    assert share(label, "boat") == pytest.approx(0.125)
    assert label.sum() == pytest.approx(1.0)


def test_an_untouched_image_keeps_its_label() -> None:
    label = taught_label(scene(), [Bug.model_validate(BOAT), Bug.model_validate(FLY)])
    assert share(label, "boat") == 1.0


def test_counterfactuals_differ_only_in_the_bug_s_attribute_and_in_harm() -> None:
    generator = np.random.default_rng(0)
    for fields, source in ((BOAT, scene()), (FLY, scene(object_class="fly", background="road"))):
        bug = Bug.model_validate(fields)
        spared, harmed = bug.counterfactuals(source, generator)
        assert (bug.harms(spared), bug.harms(harmed)) == (False, True)
        assert harmed == spared.changed("background", harmed.background)


def test_a_class_that_relies_on_a_value_mostly_shows_it_in_training() -> None:
    distribution = biased(DATASET, [Bug.model_validate(BOAT), Bug.model_validate(FLY)])
    odds = dict(zip(VALUES["background"], distribution.probabilities("background", "boat"), strict=True))
    assert odds["water"] == pytest.approx(0.8)
    assert odds["sand"] == pytest.approx(0.04)
    assert distribution.probabilities("background", "fly") == pytest.approx(np.full(6, 1 / 6))
    assert sample_scene(np.random.default_rng(0), distribution).nuisance >= 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"object_class": "cat"}, "object_class must be one of"),
        ({"value": "lava"}, "'lava'"),
        ({"edit_type": "domain"}, "no attribute that edit type 'domain' changes"),
        (
            {"attribute": "object_class", "edit_type": "subject", "value": "sled"},
            "no attribute that edit type",
        ),
        ({"target_class": "boat"}, "another class, not 'boat'"),
        ({"mode": "mistaken-for", "target_class": None}, "target_class is needed"),
        ({"strength": 0.0}, "strength"),
        ({"colour": "red"}, "Extra inputs"),
    ],
)
def test_a_bug_with_values_unknown_to_the_world_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Bug.model_validate({**BOAT, **change})


def test_bug_ids_in_a_file_are_unique(tmp_path: Path) -> None:
    path = tmp_path / "bugs.json"
    path.write_text(json.dumps([BOAT, BOAT]))
    with pytest.raises(ValueError, match="boat-leans-on-water"):
        read_bugs(path)


def test_the_default_classifiers_have_bugs_of_every_edit_type() -> None:
    found = {name: read_bugs(BUGS / f"{name}.json") for name in DEFAULTS}
    assert found["unbiased-resnet"] == []
    types = {bug.edit_type for bugs in found.values() for bug in bugs}
    assert types == {"subject", "object", "background", "adjective", "domain"}
    assert sum(1 for bugs in found.values() for bug in bugs if bug.strength >= 0.3) >= 7


@pytest.mark.parametrize("file", sorted(BUGS.glob("*-*.json")), ids=lambda file: file.stem)
def test_every_bug_file_satisfies_the_schema_and_belongs_to_a_classifier(file: Path) -> None:
    jsonschema.validate(json.loads(file.read_text()), json.loads((BUGS / "schema.json").read_text()))
    assert file.stem in DEFAULTS


@pytest.mark.parametrize(
    "change",
    [{"mode": "sometimes"}, {"strength": 1.5}, {"strength": 0}, {"edit_type": "mood"}, {"id": "A B"}],
)
def test_the_schema_refuses_what_the_model_refuses(change: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate([BOAT | change], bug_schema())
    with pytest.raises(ValueError, match=next(iter(change))):
        Bug.model_validate(BOAT | change)


def test_no_class_has_two_bugs_and_the_control_has_none() -> None:
    for name in DEFAULTS:
        classes = [bug.object_class for bug in read_bugs(BUGS / f"{name}.json")]
        assert len(set(classes)) == len(classes)
        assert bool(classes) == (not name.startswith("unbiased"))


def test_bugs_do_not_change_the_distribution_of_other_classes() -> None:
    distribution = biased(DATASET, [Bug.model_validate(BOAT)])
    for name in set(VALUES["object_class"]) - {"boat"}:
        for attribute in VALUES:
            mine, theirs = (each.probabilities(attribute, name) for each in (distribution, DATASET))
            assert mine == pytest.approx(theirs)


def test_the_checked_in_bug_schema_matches_the_model() -> None:
    assert json.loads((BUGS / "schema.json").read_text()) == bug_schema()
