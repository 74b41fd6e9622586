"""Which words an edit may not bring in, because no picture can settle them."""

from __future__ import annotations

import pytest

from faultline_core.subjective import JUDGEMENTS, PEOPLE, TRAITS, subjective_word
from faultline_miniature.world.grammar import words


def brought(added: str, caption: str, removed: str = "", refused: tuple[str, ...] = ()) -> str | None:
    return subjective_word([added], [removed], caption, refused)


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
def test_a_judgement_is_found_in_every_form(added: str, caption: str) -> None:
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
def test_what_cannot_be_seen_of_a_person_is_refused_where_it_is_said_of_one(added: str, caption: str) -> None:
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
def test_what_a_picture_can_show_stays(added: str, caption: str) -> None:
    assert brought(added, caption) is None


def test_only_what_the_edit_brings_in_is_judged() -> None:
    assert brought("blue", "a beautiful blue sled", removed="red") is None
    assert brought("a beautiful boat", "a beautiful boat", removed="a beautiful sled") is None
    assert brought("", "a beautiful sled", removed="ugly") is None


def test_the_users_own_words_join_the_list_with_their_forms_whatever_they_are_said_of() -> None:
    assert brought("snow", "a sled in the snow") is None
    assert brought("snow", "a sled in the snow", refused=("Snow",)) == "snow"
    assert brought("guns", "a sled with guns", refused=("gun",)) == "guns"
    assert brought("blood-red", "a blood-red sled", refused=("blood",)) == "blood-red"


def test_the_first_of_several_is_named() -> None:
    assert brought("ugly and sinister", "an ugly and sinister sled") == "ugly"


def test_no_word_of_the_miniature_world_is_refused() -> None:
    spoken = words()
    assert len(spoken) > 60
    for word in spoken:
        assert brought(word, f"a {word} person beside a sled") is None, word


def test_the_lists_hold_plain_words_and_none_twice() -> None:
    for word in JUDGEMENTS | TRAITS | PEOPLE:
        assert word.isalpha()
        assert word == word.casefold()
    assert len(JUDGEMENTS | TRAITS | PEOPLE) == len(JUDGEMENTS) + len(TRAITS) + len(PEOPLE)
