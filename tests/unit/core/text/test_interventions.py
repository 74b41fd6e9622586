"""Interventions: how a user writes them, and how they change a caption."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from counterpose_core.contract.interventions import Intervention, interventions_of
from counterpose_core.errors import InvalidRequest
from counterpose_core.text.interventions import agreeing_article, intervene
from counterpose_miniature.world.grammar import words


@pytest.mark.parametrize(
    ("caption", "removed", "added", "expected"),
    [
        ("a husky pulls a sled", "husky", "poodle", "a poodle pulls a sled"),
        ("a husky and a Husky.", "HUSKY", "owl", "an owl and an owl."),
        ("an apple on an ice floe", "apple", "red pear", "a red pear on an ice floe"),
        ("Huskies run", "huskies", "poodles", "Poodles run"),
        ("huskies, and husky-like dogs", "husky", "poodle", None),
        ("a dog in the  rain", "in the rain", "in the snow", "a dog in the snow"),
        ("a dog in the rain", "in rain", "in the snow", None),
        ("a dog’s tail", "dog's", "cat's", "a cat's tail"),
        ("a dog on grass", "", "in the snow", "a dog on grass in the snow"),
        ("a dog on grass. ", "", "in the snow", "a dog on grass in the snow."),
        ("a dog in the rain.", "in the rain", "", "a dog."),
        ("a dog, in the rain, on grass", "in the rain", "", "a dog, on grass"),
        ("a red apple", "red", "", "an apple"),
        ("In the rain, a dog", "in the rain", "", "a dog"),
        ("the rain", "the rain", "", None),
        ("an hour", "hour", "unicorn", "a unicorn"),
        ("a week", "week", "hour", "an hour"),
        ("dog dog dog", "dog dog", "cat", "Cat dog".lower()),
    ],
)
def test_whole_words_are_replaced_at_any_position(
    caption: str, removed: str, added: str, expected: str | None
) -> None:
    assert intervene(caption, removed, added) == expected


def test_a_line_gives_one_intervention_per_choice() -> None:
    typed = Intervention(removed="rain")
    assert interventions_of(["husky => schnauzer, toy  poodle", "=>in the snow", "in the rain=>", typed]) == [
        Intervention(removed="husky", added="schnauzer"),
        Intervention(removed="husky", added="toy poodle"),
        Intervention(added="in the snow"),
        Intervention(removed="in the rain"),
        typed,
    ]


@pytest.mark.parametrize(
    "line",
    ["", "husky", "=>", " => ", "a=>b=>c", "a=>b,", "a=>,b", "=>,", "!=>?", "dog=>Dog", "a=>" + "b" * 201],
)
def test_an_invalid_intervention_is_refused_by_name(line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        interventions_of([line])
    assert repr(line) in refused.value.detail


def test_an_intervention_without_effect_is_refused() -> None:
    for wrong in ({}, {"removed": "…"}, {"removed": "dog", "added": "DOG"}, {"removed": "dog", "more": 1}):
        with pytest.raises(ValidationError):
            Intervention.model_validate(wrong)


def test_an_intervention_reads_as_a_sentence() -> None:
    read = [one.in_words() for one in interventions_of(["dog=>cat", "=>in snow", "in rain=>"])]
    assert read == ["“dog” becomes “cat”", "“in snow” is added", "“in rain” is taken out"]


@pytest.mark.parametrize(
    "spoken",
    [
        "an airplane", "a boat", "an umbrella", "a unicorn", "a university", "a European", "a ukulele",
        "a ewe", "an hour", "an heirloom", "a horse", "an honest man", "a honeycomb", "an uninvited guest",
        "a UFO", "an unidentified bird", "a one-way street", "an onion", "a utensil", "an utter mess",
        "an usher", "an X-ray", "an SUV", "an 18-wheeler", "a 1800", "an 80", "a unanimous vote", "an urn",
    ],
)  # fmt: skip
def test_articles_fit_how_the_next_word_sounds(spoken: str) -> None:
    article, _, word = spoken.partition(" ")
    for wrong in ("a ", "an "):
        assert agreeing_article(f"a photo of {wrong}", word) == f"a photo of {article} "
    assert agreeing_article("A ", word) == f"{article.capitalize()} "


def test_the_miniature_s_words_have_the_articles_that_they_had() -> None:
    taking_an = {word for word in words() if word[0] in "aeiou"}
    assert taking_an
    for word in words():
        if word.isalpha():
            assert agreeing_article("a ", word) == ("an " if word in taking_an else "a ")
