"""Prompts of an adversarial dataset: which captions make one, and which are left out."""

from __future__ import annotations

from counterpose_core.adversarial_dataset.prompts import TOO_MANY, SeedPrompt, prompts_of, shortened
from counterpose_core.bug_hunt.descriptions import ANOTHER_CLASS, LOST_LABEL

CLASSES = ["fly", "bee", "fly agaric"]


def test_captions_that_say_the_same_make_one_prompt_the_most_frequent_first() -> None:
    captions = [("fly", "a fly on a leaf"), ("fly", "a  fly in the snow"), ("fly", "a fly in the snow")]
    found = prompts_of(captions, CLASSES, sentences=2, most=10)
    assert found.prompts == [
        SeedPrompt("fly", "a fly in the snow", 2), SeedPrompt("fly", "a fly on a leaf", 1),
    ]  # fmt: skip
    assert not found.dropped


def test_a_caption_without_its_label_or_with_another_class_is_left_out_and_counted() -> None:
    captions = [("fly", "an insect"), ("fly", "a fly next to a bee"), ("fly agaric", "a fly agaric")]
    found = prompts_of(captions, CLASSES, sentences=2, most=10)
    # "fly" is a part of the label and names no other class.
    assert found.prompts == [SeedPrompt("fly agaric", "a fly agaric", 1)]
    assert found.dropped == {LOST_LABEL: 1, ANOTHER_CLASS: 1}


def test_the_first_sentences_are_kept() -> None:
    text = "A fly.  It sits on a leaf! A third. "
    assert shortened(text, 2) == "A fly. It sits on a leaf!"
    assert shortened(text, 1) == "A fly."


def test_captions_beyond_the_most_are_counted_by_their_seeds() -> None:
    captions = [("fly", f"a fly {place}") for place in ("here", "here", "there", "there", "away")]
    found = prompts_of(captions, CLASSES, sentences=1, most=1)
    assert [each.text for each in found.prompts] == ["a fly here"]
    assert found.dropped == {TOO_MANY: 3}
