"""Shorter forms of descriptions, and whether what they leave out is needed."""

from __future__ import annotations

import pytest

from counterpose_core.bug_hunt.comparison import FailureCounts
from counterpose_core.bug_hunt.refinement import needs, single_parts, without_adjectives

PHOTO = "a photo of a <class>"


@pytest.mark.paper("BUGS-S3-single")
def test_each_part_alone_leaves_out_the_others() -> None:
    found = single_parts("a photo of a fly among the flowers next to a dog", PHOTO, "fly")
    assert [(each.prompt, each.left_out) for each in found] == [
        ("a photo of a fly among the flowers", "next to a dog"),
        ("a photo of a fly next to a dog", "among the flowers"),
    ]
    assert single_parts("a photo of a fly among the flowers", PHOTO, "fly") == []


@pytest.mark.paper("BUGS-S3-adjectives")
def test_adjectives_are_left_out_one_by_one_and_articles_agree() -> None:
    found = without_adjectives("a photo of an orange fly. it is on a small apple.", PHOTO, "fly")
    assert [(each.prompt, each.left_out) for each in found] == [
        ("a photo of a fly. it is on a small apple.", "orange"),
        ("a photo of an orange fly. it is on an apple.", "small"),
    ]
    assert found[0].words == "it is on a small apple"


def test_adjectives_of_the_label_and_of_the_baseline_stay() -> None:
    template = "a realistic photo of a <class>"
    assert without_adjectives("a realistic photo of a red fox in a field", template, "red fox") == []


@pytest.mark.parametrize(
    ("failures", "need"), [(32, "not-needed"), (26, "not-needed"), (18, "needed"), (0, "needed")]
)
def test_words_are_needed_where_the_form_without_them_fails_less_often(failures: int, need: str) -> None:
    assert needs(FailureCounts(30, 32), [FailureCounts(failures, 32)]) == [need]


def test_few_images_cannot_tell() -> None:
    assert needs(FailureCounts(5, 8), [FailureCounts(3, 8)]) == ["cannot-tell"]
    assert needs(FailureCounts(0, 0), [FailureCounts(0, 0)]) == ["cannot-tell"]


def test_the_test_is_corrected_over_the_forms() -> None:
    whole, form = FailureCounts(15, 16), FailureCounts(10, 16)
    assert needs(whole, [form]) == ["needed"]
    assert needs(whole, [form] * 3) == ["cannot-tell"] * 3
