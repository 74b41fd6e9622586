"""The sentence of a finding: what the images are taken for, in plain words, at most twenty of them."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest

from counterpose_core.contract.findings import FindingState
from counterpose_gateway.methods.stress_test.summary.finding_sentences import finding_sentence, plural

PLATE: dict[str, Any] = {
    "classifier": "resnet50", "object_class": "plate", "removed": "food", "added": "", "taken_for": "kite",
    "flipped": 14, "of": 15,
}  # fmt: skip


def sentence(state: FindingState, **changes: Any) -> str:
    return finding_sentence(state, **{**PLATE, **changes})


def test_what_breaks_is_said_with_its_count() -> None:
    assert sentence("breaks") == "resnet50 takes plates for kites once “food” is gone: 14 of 15 images."


def test_the_word_that_ties_a_phrase_to_the_class_is_not_said() -> None:
    assert "once “food” is gone" in sentence("breaks", removed="of food")
    assert "once “of” is gone" in sentence("breaks", removed="of")


def test_a_suspicion_says_that_it_was_not_tested() -> None:
    said = sentence("suspected", flipped=4, of=4)
    assert said == "resnet50 takes plates for kites once “food” is gone: 4 of 4 images, not yet tested."


def test_a_change_that_turns_no_answer_costs_sureness() -> None:
    said = sentence("breaks", taken_for=None, flipped=0)
    assert said == "resnet50 is less sure of plates once “food” is gone: 15 images."


def test_a_change_that_turns_few_answers_does_not_say_that_they_are_mistaken() -> None:
    said = sentence("breaks", taken_for="kite", flipped=1, of=9)
    assert said == "resnet50 is less sure of plates once “food” is gone: 1 of 9 images turn wrong."


def test_what_holds_names_the_loss_that_is_ruled_out() -> None:
    assert (
        sentence("holds")
        == "resnet50 holds on plates once “food” is gone: a loss of 0.10 or more is ruled out."
    )


def test_what_cannot_be_told_names_the_number_of_images() -> None:
    assert sentence("cannot-tell", of=1).endswith(": 1 image cannot tell whether this hurts.")


@pytest.mark.parametrize(
    ("removed", "added", "when"),
    [
        ("yellow", "blue", "once “yellow” becomes “blue”"),
        ("", "in the snow", "once “in the snow” is there"),
        ("right there next to a very small dog", "", "once “…next to a very small dog” is gone"),
        ("on the grass", "in the snow", "once “on the grass” becomes “in the snow”"),
    ],
)
def test_the_change_is_said_by_its_words(removed: str, added: str, when: str) -> None:
    assert f" {when}: " in sentence("breaks", removed=removed, added=added)


def test_edits_that_share_no_words_are_told_by_their_type_and_the_words_behind_the_harm() -> None:
    said = sentence("breaks", removed="", edit_type="object")
    assert said == "resnet50 takes plates for kites when the object changes: 14 of 15 images."
    assert sentence("breaks", removed="", edit_type="object", mostly=("the ball", "")) == (
        "resnet50 takes plates for kites mostly once “the ball” changes: 14 of 15 images."
    )


def test_words_of_the_change_need_no_others_beside_them() -> None:
    assert sentence("breaks", mostly=("the ball", "")) == sentence("breaks")


@pytest.mark.parametrize(
    ("state", "end"),
    [
        ("breaks", ": 14 of 15 repeats on 5 images."),
        ("holds", ": a loss of 0.10 is ruled out on these 5 images."),
        ("cannot-tell", ": 15 tries on these 5 images cannot tell whether this hurts."),
    ],
)
def test_a_test_of_redrawn_images_speaks_of_these_images(state: FindingState, end: str) -> None:
    assert sentence(state, drawn=5).endswith(end)
    assert re.search("on this image|repeats on one image", sentence(state, drawn=1))


def test_few_turned_answers_of_redrawn_images() -> None:
    few = sentence("breaks", flipped=1, drawn=5)
    assert few.endswith("once “food” is gone: 1 of 15 repeats on 5 images turn wrong.")


LONG = "a very long phrase of many words that a caption model may well write down"


@pytest.mark.parametrize("removed", ["", "food", LONG])
@pytest.mark.parametrize("added", ["", "snow", LONG])
@pytest.mark.parametrize("taken_for", [None, "kite", LONG])
@pytest.mark.parametrize("drawn", [None, 5])
def test_every_sentence_has_at_most_twenty_words_and_no_interval(
    removed: str, added: str, taken_for: str | None, drawn: int | None
) -> None:
    for state in get_args(FindingState):
        said = sentence(
            state, object_class=LONG, removed=removed, added=added, taken_for=taken_for, drawn=drawn,
            flipped=1, mostly=("", "ball") if drawn is None else ("", ""),
        )  # fmt: skip
        assert len(said.split()) <= 20
        assert "95 %" not in said
        assert "'" not in said


@pytest.mark.parametrize("state", get_args(FindingState))
def test_no_sentence_is_longer_than_twenty_words(state: FindingState) -> None:
    long = {
        "object_class": "golden retriever", "taken_for": "cocker spaniel",
        "removed": "on the very green grass of a park", "added": "in the deep and very cold snow",
    }  # fmt: skip
    assert len(sentence(state, **long).split()) <= 20
    assert len(sentence(state, **{**long, "removed": ""}).split()) <= 20
    assert len(sentence(state).split()) <= 20


@pytest.mark.parametrize(
    ("name", "several"),
    [
        ("plate", "plates"),
        ("bus", "buses"),
        ("fly", "flies"),
        ("toy", "toys"),
        ("torch", "torches"),
        ("box", "boxes"),
    ],
)
def test_classes_are_named_in_the_plural(name: str, several: str) -> None:
    assert plural(name) == several
