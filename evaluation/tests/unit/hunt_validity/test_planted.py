"""Which bugs are planted, and what becomes of one, by the grammar."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from counterpose_miniature.training.bugs import Bug
from counterpose_miniature.world.scene import VALUES, WITHHELD
from evaluation.hunt_validity.fates import depicts, names_bug, says
from evaluation.hunt_validity.planted import CIRCUMSTANCES, STRENGTHS, planned_hunts, roster_of

NIGHT = Bug(
    id="fly-night", object_class="fly", edit_type="background", attribute="weather", value="night",
    mode="mistaken-for", target_class="bee", strength=0.75,
)  # fmt: skip


def test_six_controls_and_twelve_classifiers_with_two_bugs_each() -> None:
    roster = roster_of(1, 6)
    bugs = [bug for one in roster for bug in one.bugs]
    assert (len(roster), len(bugs)) == (18, 24)
    assert set(Counter(bug.object_class for bug in bugs).values()) == {3}
    assert {(bug.attribute, bug.value) for bug in bugs} == set(CIRCUMSTANCES)
    assert set(Counter(bug.strength for bug in bugs).values()) == {24 // len(STRENGTHS)}
    assert not {(bug.object_class, bug.attribute, bug.value) for bug in bugs} & set(WITHHELD)
    begun = Counter(one.begins_as for one in roster if one.bugs)
    assert begun == {one.name: 2 for one in roster if not one.bugs}
    assert all(first.number < second.number for first, second in pairwise(roster))


def test_stretches_differ_and_each_is_always_the_same() -> None:
    assert roster_of(1, 6) == roster_of(1, 6)
    assert [one.bugs for one in roster_of(0, 6)] != [one.bugs for one in roster_of(1, 6)]


def test_every_bug_is_hunted_and_a_part_of_the_hunts_has_controls_too() -> None:
    hunts = planned_hunts(roster_of(1, 6), 5)
    assert len({(hunt.taught.name, hunt.label) for hunt in hunts}) == len(hunts) == 50
    assert sum(len(hunt.bugs) for hunt in hunts) == 24
    assert sum(hunt.is_control for hunt in hunts) == 30
    assert 8 <= sum(hunt.is_control for hunt in hunts[:20]) <= 12
    assert {hunt.label for hunt in hunts if hunt.is_control} == set(VALUES["object_class"])


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("at night", True),
        ("after dark", True),
        ("white on the road at night", True),
        ("on the road", False),
        ("in the fog", False),
        ("", False),
    ],
)
def test_a_description_names_a_bug_by_its_circumstance(words: str, named: bool) -> None:
    assert names_bug(words, "fly", NIGHT) is named
    assert not names_bug(words, "bee", NIGHT)


def test_a_description_says_what_it_names_and_not_its_class() -> None:
    assert says("sketch white among the flowers", "fly") == {
        "style": "sketch",
        "colour": "white",
        "background": "flowers",
    }
    assert says("a fly at night", "fly") == {"weather": "night"}


def test_on_a_user_s_scenes_a_prompt_shows_what_it_names_and_anything_else() -> None:
    assert says("a photo of a fly on the grass", "fly") == {"style": "photo", "background": "grass"}


def test_a_whole_description_shows_nothing_that_it_does_not_speak_of() -> None:
    assert depicts("a photo of a fly on the grass") == {
        "kind": "plain", "background": "grass", "weather": "clear", "style": "photo", "companion": "none",
    }  # fmt: skip
    assert depicts("a sketch of a red fly next to a dog at night") == {
        "kind": "plain", "colour": "red", "weather": "night", "style": "sketch", "companion": "dog",
    }  # fmt: skip
