"""Sentences combined greedily by their likelihood over a cluster."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterpose_core.bug_hunt.combination import best_extension, combined_prompt, continuation, pooled
from counterpose_core.errors import InvalidRequest


@pytest.mark.paper("BUGS-S3-greedy")
def test_the_extension_of_the_greatest_product_a_token_is_taken() -> None:
    # The product over images of the second text is the smaller one, but it has twice the tokens.
    totals = np.array([[-3.0, -4.0, -9.0], [-3.0, -4.0, -1.0]])
    best = best_extension(totals, np.array([3.0, 6.0, 3.0]))
    assert best.place == 1
    assert best.mean == pytest.approx(-4.0 / 6.0)


def test_what_cannot_be_weighed_is_left_out() -> None:
    nan = math.nan
    # No image could be asked about the first text, and one image about nothing.
    totals = np.array([[nan, -4.0, -5.0], [nan, nan, nan], [nan, -4.0, -1.0]])
    best = best_extension(totals, np.array([1.0, 1.0, 1.0]))
    assert best.place == 2
    assert best.mean == pytest.approx(-3.0)
    with pytest.raises(InvalidRequest, match="no caption could be weighed"):
        best_extension(np.full((2, 2), nan), np.ones(2))


def test_a_continuation_is_what_follows_the_prompt() -> None:
    assert continuation("A photo of  a fly in the snow", "a photo of a fly") == "in the snow"
    assert continuation("a sketch of a fly", "a photo of a fly") is None


def test_sentences_are_pooled_the_most_frequent_first() -> None:
    assert pooled(["it is on a flower. the background is green.", "it is on a flower. it is red."]) == [
        "it is on a flower.", "it is red.", "the background is green.",
    ]  # fmt: skip
    # A captioner of one sentence gives its phrases.
    assert pooled(["in the snow next to a dog", "in the snow", ""]) == ["in the snow", "next to a dog"]


def test_phrases_stand_before_the_end_of_the_prompt_and_sentences_after_it() -> None:
    assert combined_prompt("a photo of a fly.", ["in the snow", "at night"]) == (
        "a photo of a fly in the snow at night."
    )
    assert combined_prompt("a photo of a fly.", ["it is red."]) == "a photo of a fly. it is red."
