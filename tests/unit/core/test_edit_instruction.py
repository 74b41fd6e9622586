"""From two captions to the sentence that asks an editor for their difference."""

from __future__ import annotations

import pytest

from counterpose_core.blobs import cache_key
from counterpose_core.text.edit_instruction import TEMPLATES, UNCHANGED_RULE

TEMPLATE = TEMPLATES["both-captions"]


@pytest.mark.parametrize(
    ("caption", "edited", "said"),
    [
        ("a dog on the grass", "a dog on the water", ': replace "grass" by "water". '),
        ("a dog on a road", "a dog on a snowy road", ': add "snowy". '),
        ("a dog on a snowy road", "a dog on a road", ': remove "snowy". '),
        ("a red bus by a lake", "a blue bus by a sea", ". "),
        ("a {dog} on {0}", "a {dog} on {1}", ': replace "0" by "1". '),
    ],
)
def test_the_words_that_differ_are_named_beside_both_captions(caption: str, edited: str, said: str) -> None:
    told = f'The image shows "{caption}". Change it so that it shows "{edited}"{said}{UNCHANGED_RULE}'
    assert TEMPLATE.instruction(caption, edited) == told


@pytest.mark.parametrize("edited", ["a dog on the grass", "A dog, on the GRASS."])
def test_captions_with_the_same_words_ask_for_no_change(edited: str) -> None:
    said = "Return the image unchanged. Change nothing in it."
    assert TEMPLATE.instruction("a dog on the grass", edited) == said


def test_a_template_is_never_changed_under_its_name() -> None:
    """What was made by it is kept under its texts, and runs record its name alone."""
    digests = {name: cache_key(texts=template.texts)[:16] for name, template in TEMPLATES.items()}
    assert digests == {"both-captions": "334d1a11a16d11f9"}
