"""Insights in words against planted bugs, by the grammar."""

from __future__ import annotations

import pytest

from fakes.validity import BOAT_BY_ITS_WATER, change, insight
from faultline_miniature.training.bugs import Bug, read_bugs
from faultline_miniature.world.grammar import phrase
from validation.contestants import BUG_FILES
from validation.matching import meanings, members, told

TAUGHT = [bug for file in sorted(BUG_FILES.glob("*.json")) for bug in read_bugs(file)]


def named(words: tuple[str, str], bug: Bug, **changes: str) -> bool:
    known = {"object_class": bug.object_class, "edit_type": bug.edit_type} | changes
    return any(meaning.names(bug) for meaning in meanings(insight(*words, **known)))  # type: ignore[arg-type]  # a dictionary of words


@pytest.mark.parametrize("bug", TAUGHT, ids=lambda bug: bug.id)
def test_the_words_of_a_bug_s_own_value_name_it(bug: Bug) -> None:
    words = phrase(bug.attribute, bug.value, bug.object_class)
    pair = (words, "") if bug.mode == "leans-on" else ("", words)
    assert named(pair, bug)


@pytest.mark.parametrize("bug", TAUGHT, ids=lambda bug: bug.id)
def test_the_same_words_on_the_other_side_do_not(bug: Bug) -> None:
    words = phrase(bug.attribute, bug.value, bug.object_class)
    pair = ("", words) if bug.mode == "leans-on" else (words, "")
    assert not named(pair, bug)


def test_another_value_of_the_attribute_is_another_bug() -> None:
    assert not named(("on the grass", "on the water"), BOAT_BY_ITS_WATER)


def test_another_class_is_another_bug() -> None:
    assert not named(("on the water", ""), BOAT_BY_ITS_WATER, object_class="tram")


def test_another_edit_type_is_another_bug() -> None:
    assert not named(("on the water", ""), BOAT_BY_ITS_WATER, edit_type="domain")


def test_a_synonym_names_the_same_value() -> None:
    assert named(("on the lake", "on the street"), BOAT_BY_ITS_WATER)


def test_silence_means_the_value_that_captions_do_not_spell_out() -> None:
    alone = Bug(
        id="sled-alone",
        object_class="sled",
        edit_type="object",
        attribute="companion",
        value="none",
        mode="leans-on",
        target_class="boat",
        strength=0.5,
    )
    assert named(("", "next to a dog"), alone)
    assert not named(("next to a ball", "next to a dog"), alone)


def test_the_special_kind_is_told_by_the_class_s_own_mark() -> None:
    assert told("of food", "plate") == {"kind": "special"}
    assert told("of food", "kite") == {}


def test_words_without_a_value_mean_nothing() -> None:
    assert meanings(insight("", "")) == []


def test_members_are_the_kept_edits_that_the_words_cover() -> None:
    fitting = change(0)
    others = [change(1, removed="sand"), change(2, kept=False), change(3, object_class="tram")]
    assert members(insight("on the water", ""), [fitting, *others]) == [fitting]


def test_without_words_members_are_all_kept_edits_of_the_class_and_type() -> None:
    edits = [
        change(0),
        change(1, attribute="weather", removed="clear", added="fog"),
        change(2, edit_type="domain"),
    ]
    assert members(insight("", ""), edits) == edits[:2]


def test_both_sides_must_agree_where_both_are_told() -> None:
    edits = [change(0), change(1, added="sand")]
    assert members(insight("on the water", "on the sand"), edits) == edits[1:]


def test_a_cluster_speaks_of_its_own_edits_whatever_its_middle_is_called() -> None:
    edits = [change(0), change(1, removed="sand"), change(2), change(3, kept=False)]
    cluster = insight("on the water", "").model_copy(
        update={"cluster_items": [edits[0].item, edits[1].item, edits[3].item]}
    )
    assert members(cluster, edits) == edits[:2]
