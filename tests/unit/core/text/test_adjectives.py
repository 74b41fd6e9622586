"""Adjectives of a sentence that can be left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.text.adjectives import adjectives, attributive
from evaluation.word_lists.adjectives import derive, licence


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("it is on a yellow flower .", ["yellow"]),
        ("a white fly among small orange flowers", ["white", "small", "orange"]),
        ("the background is blurred and green .", []),
        ("the background is green", []),
        ("a fly with spread wings", []),
        ("in front of an old , wooden fence", ["wooden"]),
        ("", []),
    ],
)
def test_adjectives_before_a_noun_are_found(sentence: str, found: list[str]) -> None:
    words = sentence.split()
    assert [words[place] for place in attributive(words)] == found


def test_the_list_has_common_adjectives_and_no_nouns_verbs_or_stop_words() -> None:
    known = adjectives()
    assert {"yellow", "wooden", "snowy", "plastic", "blurred"} <= known
    assert not {"fly", "spread", "snow", "run", "in", "on", "other", "#"} & known
    assert len(known) > 15_000


def test_the_list_is_derived_by_the_share_of_tagged_uses(tmp_path: Path) -> None:
    for part, words in {
        "adj": ["fly", "yellow", "zany", "blue_black"],
        "noun": ["fly", "yellow"],
        "verb": ["fly"],
        "adv": [],
    }.items():
        head = "  1 A licence.  \n"
        (tmp_path / f"index.{part}").write_text(head + "".join(f"{word} a 1\n" for word in words), "ascii")
    counts = "yellow%3:00:01:: 1 2\nyellow%1:07:00:: 1 5\nfly%5:00:00:sly:00 1 1\nfly%2:38:00:: 1 4\n"
    (tmp_path / "cntlist.rev").write_text(counts, "ascii")
    assert derive(tmp_path) == ["yellow", "zany"]
    assert licence(tmp_path) == ["A licence."]
