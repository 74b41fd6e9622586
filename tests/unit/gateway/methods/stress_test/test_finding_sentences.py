"""The sentence of a finding: what the images are taken for, in plain words, at most twenty of them."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from faultline_core.contract.findings import FindingState
from faultline_gateway.methods.stress_test.summary.finding_sentences import finding_sentence, plural

PLATE: dict[str, Any] = {
    "classifier": "resnet50", "object_class": "plate", "removed": "food", "added": "", "taken_for": "kite",
    "flipped": 14, "of": 15,
}  # fmt: skip


def sentence(state: FindingState, **changes: Any) -> str:
    return finding_sentence(state, **{**PLATE, **changes})


def test_what_breaks_is_said_with_its_count() -> None:
    assert sentence("breaks") == "resnet50 takes plates for kites once “food” is gone: 14 of 15 images."


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
    assert sentence("cannot-tell", of=1).endswith(": 1 image cannot tell whether it loses them.")


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
