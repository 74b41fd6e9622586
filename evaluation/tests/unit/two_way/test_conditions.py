"""What a run says of two conditions: that it met them, tested them, and proved them."""

from __future__ import annotations

import pytest

from counterpose_core.contract.confirmation import Condition, ConjunctionPart, Instruction
from counterpose_core.contract.runs import Item
from counterpose_miniature.world.scene import Scene
from evaluation.tests.fakes.validity import item, scene
from evaluation.two_way import conditions
from evaluation.two_way.conditions import meets, proven
from fakes.findings import a_finding

BOTH = frozenset({("background", "sand"), ("weather", "rain")})
WITH_BOTH = scene("fly", background="sand", weather="rain")
WITH_ONE = scene("fly", background="sand")
CONDITIONS = [Condition(edit_type="background", words=words) for words in ("on the sand", "in the rain")]


def original(shown: Scene, **changes: object) -> Item:
    return item(shown, kind="reconstruction", edit_type=None).model_copy(update=changes)


def test_a_bug_is_met_where_a_caption_of_the_class_names_both_conditions() -> None:
    assert meets([original(WITH_ONE), original(WITH_BOTH)], "fly", BOTH)
    assert not meets([original(WITH_ONE), original(scene("fly", weather="rain"))], "fly", BOTH)
    assert not meets([original(WITH_BOTH)], "boat", BOTH)


def test_an_edit_meets_it_by_its_own_caption() -> None:
    assert meets([item(WITH_ONE, WITH_BOTH)], "fly", BOTH)
    assert not meets([item(WITH_ONE, scene("fly", background="grass", weather="rain"))], "fly", BOTH)


@pytest.mark.parametrize(
    "changes",
    [{"stage": 2}, {"state": "filtered"}, {"result": None}, {"kind": "caption"}],
    ids=lambda changes: next(iter(changes)),
)
def test_what_the_screen_did_not_see_is_not_met(changes: dict[str, object]) -> None:
    assert not meets([item(WITH_ONE, WITH_BOTH).model_copy(update=changes)], "fly", BOTH)


def test_conditions_are_tested_for_the_classifiers_that_an_item_was_made_for() -> None:
    part = ConjunctionPart(conditions=CONDITIONS, shows="both")
    made = [
        original(WITH_BOTH, instruction=Instruction(conjunction=part, classifiers=["model"])),
        original(WITH_BOTH, instruction=Instruction(classifiers=["model"])),
        original(WITH_BOTH),
    ]
    assert conditions.tested(made, "model") == {("fly", BOTH)}
    assert conditions.tested(made, "another") == set()
    assert conditions.tested(made[1:], "model") == set()


def test_only_conjunctions_that_break_the_classifier_are_proven() -> None:
    counts = [each.model_dump() | {"n": 8, "wrong": 0} for each in CONDITIONS]
    shown = a_finding(state="breaks", classifier="model", conjunction=counts)
    others = [
        a_finding(state="breaks", classifier="model"),
        a_finding(state="cannot-tell", classifier="model", conjunction=counts),
        a_finding(state="breaks", classifier="another", conjunction=counts),
    ]
    assert proven([*others, shown], "model") == [shown]
