"""Image quality by raters, by CLIP and by an oracle."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.errors import InvalidRequest
from counterpose_core.shift_benchmark.image_quality import Vote, image_source_quality, selection_frequencies


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def votes() -> list[Vote]:
    """Five raters on 24 images; image p is selected by p mod 6 of them, its object by all."""
    return [
        Vote(f"{image}", f"{rater}", question, question == "object" or rater < image % 6)
        for image in range(24)
        for rater in range(5)
        for question in ("object", "shift")
    ]


def test_each_image_has_equal_weight_whatever_its_number_of_raters() -> None:
    few = [vote for vote in votes() if vote.image != "5" or vote.rater == "0"]
    found = selection_frequencies(few, [], generator())["shift"].everything
    assert found.estimate == pytest.approx(0.5)
    assert found.n == 24


def test_object_and_shift_have_separate_selection_frequencies() -> None:
    found = selection_frequencies(votes(), {"5", "11", "17"}, generator())
    assert found["object"].everything.estimate == 1.0
    assert found["shift"].everything.low is not None
    assert found["shift"].everything.low < 0.5
    assert (found["shift"].kept.estimate, found["shift"].kept.n) == (1.0, 3)


def test_an_unasked_question_has_no_frequency() -> None:
    only = [vote for vote in votes() if vote.question == "object"]
    assert selection_frequencies(only, [], generator())["shift"].everything.n == 0


def test_a_rater_votes_once_on_an_image() -> None:
    with pytest.raises(InvalidRequest, match="'0' voted twice on the object of '0'"):
        selection_frequencies([*votes(), votes()[0]], [], generator())


def test_a_source_is_summarised_by_both_similarities_and_its_pass_rate() -> None:
    draw = generator()
    found = image_source_quality(
        draw.normal(0.3, 0.02, 50), draw.normal(0.15, 0.02, 50), [True] * 40 + [False] * 10, draw
    )
    assert found.to_object.estimate == pytest.approx(0.3, abs=0.01)
    assert found.to_shift.estimate == pytest.approx(0.15, abs=0.01)
    assert (found.passed.estimate, found.passed.n) == (0.8, 50)
