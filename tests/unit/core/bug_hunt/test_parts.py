"""The parts of a description: sentences, or phrases of one sentence."""

from __future__ import annotations

import pytest

from counterpose_core.bug_hunt.parts import parts, phrases, spoken

PHOTO = "a photo of a <class>"
PAPER = "a realistic photograph of a <class> (insect)."


@pytest.mark.parametrize(
    ("description", "template", "found"),
    [
        (
            "a photo of a white fly among the flowers next to a dog", PHOTO,
            {
                "a photo of a white fly": "white",
                "a photo of a fly among the flowers": "among the flowers",
                "a photo of a fly next to a dog": "next to a dog",
            },
        ),
        (
            "in the snow, a sketch of a fly in front of a wall", PHOTO,
            {
                "a sketch of a fly": "sketch",
                "a photo of a fly in the snow": "in the snow",
                "a photo of a fly in front of a wall": "in front of a wall",
            },
        ),
        (
            "a realistic photograph of a fly (insect). the fly is in focus. it is on a flower.", PAPER,
            {
                "a realistic photograph of a fly (insect). the fly is in focus.": "the fly is in focus",
                "a realistic photograph of a fly (insect). it is on a flower.": "it is on a flower",
            },
        ),
        (
            "a realistic photograph of a fly (insect) in a net.", PAPER,
            {"a realistic photograph of a fly (insect) in a net.": "in a net"},
        ),
        ("a photo of a fly", PHOTO, {}),
        ("A photo of a fly.", PHOTO, {}),
    ],
)  # fmt: skip
def test_each_part_is_said_with_the_baseline_s_prompt(
    description: str, template: str, found: dict[str, str]
) -> None:
    assert {each.prompt: each.words for each in parts(description, template, "fly")} == found


def test_words_are_split_at_prepositions_and_marks() -> None:
    words = spoken("sitting among flowers on a leaf close to the water, a net on top of it")
    assert phrases(words) == [
        ["sitting"], ["among", "flowers"], ["on", "a", "leaf"], ["close", "to", "the", "water"], ["a", "net"],
        ["on", "top", "of", "it"],
    ]  # fmt: skip
