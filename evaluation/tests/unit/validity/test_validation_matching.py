"""Matching the words of insights with planted bugs by the grammar."""

from __future__ import annotations

import pytest

from counterpose_miniature.training.bugs import Bug, read_bugs
from counterpose_miniature.world.grammar import phrase
from evaluation.tests.fakes.validity import BOAT_BY_ITS_WATER, change, insight
from evaluation.validity.contestants import BUG_FILES
from evaluation.validity.matching import meanings, members, named_values

TAUGHT = [bug for file in sorted(BUG_FILES.glob("*.json")) for bug in read_bugs(file)]


def named(words: tuple[str, str], bug: Bug, **changes: str) -> bool:
    known = {"object_class": bug.object_class, "edit_type": bug.edit_type} | changes
    return any(meaning.names(bug) for meaning in meanings(insight(*words, **known)))  # type: ignore[arg-type]  # a dictionary of words


@pytest.mark.parametrize("bug", TAUGHT, ids=lambda bug: bug.id)
def test_a_bug_is_named_by_the_words_of_its_value(bug: Bug) -> None:
    words = phrase(bug.attribute, bug.value, bug.object_class)
    pair = (words, "") if bug.mode == "leans-on" else ("", words)
    assert named(pair, bug)


@pytest.mark.parametrize("bug", TAUGHT, ids=lambda bug: bug.id)
def test_the_same_words_on_the_other_side_do_not_name_the_bug(bug: Bug) -> None:
    words = phrase(bug.attribute, bug.value, bug.object_class)
    pair = ("", words) if bug.mode == "leans-on" else (words, "")
    assert not named(pair, bug)


def test_another_value_of_the_attribute_does_not_match() -> None:
    assert not named(("on the grass", "on the water"), BOAT_BY_ITS_WATER)


def test_another_class_does_not_match() -> None:
    assert not named(("on the water", ""), BOAT_BY_ITS_WATER, object_class="tram")


def test_another_edit_type_does_not_match() -> None:
    assert not named(("on the water", ""), BOAT_BY_ITS_WATER, edit_type="domain")


def test_a_synonym_names_the_same_value() -> None:
    assert named(("on the lake", "on the street"), BOAT_BY_ITS_WATER)


def test_empty_words_mean_the_unmentioned_default_value() -> None:
    changes = {"object_class": "sled", "edit_type": "object", "attribute": "companion", "value": "none"}
    alone = BOAT_BY_ITS_WATER.model_copy(update=changes)
    assert named(("", "next to a dog"), alone)
    assert not named(("next to a ball", "next to a dog"), alone)


def test_the_special_kind_is_recognised_by_the_mark_of_its_class() -> None:
    assert named_values("of food", "plate") == {"kind": "special"}
    assert named_values("of food", "kite") == {}


def test_words_without_a_value_have_no_meaning() -> None:
    assert meanings(insight("", "")) == []


def test_members_are_the_kept_edits_matching_the_words() -> None:
    fitting = change(0)
    others = [change(1, removed="sand"), change(2, kept=False), change(3, object_class="tram")]
    assert members(insight("on the water", ""), [fitting, *others]) == [fitting]


def test_without_words_all_kept_edits_of_class_and_type_are_members() -> None:
    edits = [
        change(0),
        change(1, attribute="weather", removed="clear", added="fog"),
        change(2, edit_type="domain"),
    ]
    assert members(insight("", ""), edits) == edits[:2]


def test_both_sides_must_match_if_both_are_given() -> None:
    edits = [change(0), change(1, added="sand")]
    assert members(insight("on the water", "on the sand"), edits) == edits[1:]


def test_members_of_a_cluster_are_its_edits_whatever_its_name() -> None:
    edits = [change(0), change(1, removed="sand"), change(2), change(3, kept=False)]
    cluster = insight("on the water", "").model_copy(
        update={"cluster_items": [edits[0].item, edits[1].item, edits[3].item]}
    )
    assert members(cluster, edits) == edits[:2]
