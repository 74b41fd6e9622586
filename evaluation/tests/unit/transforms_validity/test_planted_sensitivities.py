"""What a stretch's classifiers are taught: how many of which scope, and the labels that these give."""

from __future__ import annotations

from collections import Counter

import pytest

from counterpose_core.transforms.table import OPERATIONS
from evaluation.tests.fakes.validity import scene
from evaluation.transforms_validity.planted import (
    CLASSES,
    TESTED,
    UNSEEN,
    Scope,
    Sensitivity,
    Taught,
    roster_of,
)

ROSTER = roster_of(3, classifiers=14, controls=8, planted=40)
PLANTED = [each for one in ROSTER for each in one.sensitivities]


def test_half_are_of_the_whole_model_and_a_quarter_each_of_one_class_and_under_one_circumstance() -> None:
    wanted: dict[Scope, int] = {"whole": 20, "class": 10, "circumstance": 10}
    assert Counter(each.scope for each in PLANTED) == wanted
    assert sum(not one.sensitivities for one in ROSTER) == 8
    assert len({one.name for one in ROSTER}) == len(ROSTER) == 22


def test_no_classifier_has_two_of_one_operation_and_all_can_be_seen_and_tested() -> None:
    for one in ROSTER:
        operations = [each.operation for each in one.sensitivities]
        assert len(set(operations)) == len(operations)
    assert {each.operation for each in PLANTED} <= set(TESTED) - set(UNSEEN)
    assert all(each.level <= OPERATIONS[each.operation].levels and each.tested_levels for each in PLANTED)


def test_another_stretch_plants_others_and_the_same_stretch_the_same() -> None:
    assert roster_of(3, 14, 8, 40) == ROSTER
    assert [one.sensitivities for one in roster_of(4, 14, 8, 40)] != [one.sensitivities for one in ROSTER]


@pytest.mark.parametrize(
    ("one", "acts"),
    [
        (Sensitivity("darker", 3, 1), True),
        (Sensitivity("darker", 3, 1, object_class="fly"), True),
        (Sensitivity("darker", 3, 1, object_class="bee"), False),
        (Sensitivity("darker", 3, 1, circumstance=("background", "sand")), False),
        (Sensitivity("darker", 3, 1, circumstance=("background", "water")), True),
    ],
    ids=["whole", "of its class", "of another class", "elsewhere", "under its circumstance"],
)
def test_a_label_is_wrong_from_the_level_on_where_the_sensitivity_acts(one: Sensitivity, acts: bool) -> None:
    taught, fly = Taught(0, 0, (one,)), scene("fly")
    wrong = CLASSES[(CLASSES.index("fly") + 1) % len(CLASSES)]
    assert taught.label(fly, "darker", 2) == "fly"
    assert taught.label(fly, "rotation", 5) == "fly"
    assert taught.label(fly, "darker", 3) == (wrong if acts else "fly")
    assert taught.label(fly, "darker", 5) == (wrong if acts else "fly")


def test_tested_levels_are_those_of_a_run_from_the_taught_one_on() -> None:
    assert Sensitivity("darker", 2, 1).tested_levels == [3, 5]
    assert Sensitivity("darker", 4, 1).tested_levels == [5]
    assert Sensitivity("greyscale", 1, 1).tested_levels == [1]
