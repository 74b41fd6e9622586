"""The words behind the harm of a type of edits, found by comparing groups within the type."""

from __future__ import annotations

from counterpose_core.stress_test.effects import Effect, Effects
from counterpose_core.stress_test.insights import Group, Pattern, group_by_words
from counterpose_core.stress_test.naming import words_behind

WHOLE = Pattern("sled", "object", "", "")


def effects(removed: str, falls: list[float], added: str = "") -> list[Effect]:
    """One edit a source with a fall of p(true class); an empty ``added`` gives each its own word."""
    return [
        Effect(
            item=f"{removed}{at}",
            source=f"source-{removed}{at}",
            object_class="sled",
            edit_type="object",
            removed=removed,
            added=added or f"{removed}er{at}",
            delta_p=-fall,
        )
        for at, fall in enumerate(falls)
    ]


def behind(*found: list[Effect]) -> Group | None:
    every = [effect for group in found for effect in group]
    return words_behind(Group(WHOLE, Effects.of(every)), group_by_words(every, least_sources=1))


def named(*found: list[Effect]) -> tuple[str, str] | None:
    group = behind(*found)
    return None if group is None else (group.spoken.removed, group.spoken.added)


def test_the_words_whose_edits_alone_hurt_are_behind_the_harm() -> None:
    assert named(effects("ball", [0.8, 0.7, 0.9]), effects("tree", [0.1, 0.0, 0.2, 0.0])) == ("ball", "")


def test_words_that_are_brought_in_can_be_behind_it() -> None:
    assert named(
        effects("ball", [0.8, 0.7], "a dog"), effects("tree", [0.9], "a dog"), effects("bush", [0.0, 0.1])
    ) == ("", "a dog")


def test_harm_that_all_words_share_has_no_words_behind_it() -> None:
    assert named(effects("ball", [0.8, 0.7, 0.9]), effects("tree", [0.5, 0.6, 0.7, 0.8])) is None


def test_two_images_do_not_name_a_finding() -> None:
    assert named(effects("ball", [0.8, 0.7]), effects("tree", [0.1, 0.0, 0.2, 0.0])) is None


def test_words_that_all_edits_share_are_no_comparison() -> None:
    assert named(effects("ball", [0.8, 0.7, 0.9])) is None


def test_edits_that_raise_the_confidence_are_behind_no_harm() -> None:
    assert named(effects("ball", [-0.2, -0.3, -0.2]), effects("tree", [-0.8, -0.9, -0.8])) is None


def test_groups_of_other_classes_are_not_compared() -> None:
    group = behind(effects("ball", [0.8, 0.7, 0.9]), effects("tree", [0.1, 0.0]))
    assert group is not None
    elsewhere = Group(Pattern("bus", "object", "ball", ""), group.effects)
    every = (*group.effects, *effects("tree", [0.1, 0.0]))
    assert words_behind(Group(WHOLE, Effects.of(every)), [elsewhere]) is None
