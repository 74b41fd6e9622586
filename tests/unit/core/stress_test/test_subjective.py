"""Words that an edit must not add because no image can verify them."""

from __future__ import annotations

import pytest

from counterpose_core.stress_test.subjective import JUDGEMENTS, PEOPLE, TRAITS, subjective_word
from counterpose_miniature.world.grammar import words


def brought(added: str, caption: str, removed: str = "", refused: tuple[str, ...] = ()) -> str | None:
    return subjective_word([added], [removed], caption, refused)


@pytest.mark.paper("LANCE-S4.2-subjective")
@pytest.mark.parametrize(
    ("added", "caption"),
    [
        ("beautiful", "a beautiful sled on the grass"),
        ("Ugly", "an Ugly sled"),
        ("prettiest", "the prettiest sled"),
        ("uglier", "an uglier sled"),
        ("nicer", "a nicer sled"),
        ("stylishly", "a stylishly dressed woman"),
        ("terribly", "a terribly painted sled"),
        ("romantically", "a romantically lit room"),
        ("criminal-looking", "a criminal-looking man"),
        ("thieves", "two thieves on a sled"),
        ("suspicious", "a suspicious bag beside the sled"),
    ],
)
def test_subjective_words_are_found_in_every_form(added: str, caption: str) -> None:
    assert brought(added, caption) == added.casefold()


@pytest.mark.parametrize(
    ("added", "caption"),
    [
        ("rich", "a rich old man on a sled"),
        ("poorest", "the poorest child"),
        ("honest", "a man who is honest"),
        ("german", "a german woman on a sled"),
        ("wealthy", "women who look wealthy"),
    ],
)
def test_invisible_traits_are_refused_only_for_people(added: str, caption: str) -> None:
    assert brought(added, caption) == added


@pytest.mark.parametrize(
    ("added", "caption"),
    [
        ("rich soil", "rich soil beside a man"),
        ("a german shepherd", "a man with a german shepherd"),
        ("an american flag", "an american flag behind two men"),
        ("a great white shark", "a great white shark near a man"),
        ("a badger", "a badger on the grass"),
        ("flowers", "a sled among flowers"),
        ("a tall woman", "a tall woman on a sled"),
        ("cool box", "a cool box beside a person"),
    ],
)
def test_visible_traits_are_kept(added: str, caption: str) -> None:
    assert brought(added, caption) is None


def test_only_added_words_are_judged() -> None:
    assert brought("blue", "a beautiful blue sled", removed="red") is None
    assert brought("a beautiful boat", "a beautiful boat", removed="a beautiful sled") is None
    assert brought("", "a beautiful sled", removed="ugly") is None


def test_user_words_are_refused_in_every_form_for_any_subject() -> None:
    assert brought("snow", "a sled in the snow") is None
    assert brought("snow", "a sled in the snow", refused=("Snow",)) == "snow"
    assert brought("guns", "a sled with guns", refused=("gun",)) == "guns"
    assert brought("blood-red", "a blood-red sled", refused=("blood",)) == "blood-red"


def test_the_first_of_several_subjective_words_is_named() -> None:
    assert brought("ugly and sinister", "an ugly and sinister sled") == "ugly"


def test_no_word_of_the_miniature_world_is_refused() -> None:
    spoken = words()
    assert len(spoken) > 60
    for word in spoken:
        assert brought(word, f"a {word} person beside a sled") is None, word


def test_the_word_lists_are_plain_and_without_duplicates() -> None:
    for word in JUDGEMENTS | TRAITS | PEOPLE:
        assert word.isalpha()
        assert word == word.casefold()
    assert len(JUDGEMENTS | TRAITS | PEOPLE) == len(JUDGEMENTS) + len(TRAITS) + len(PEOPLE)
