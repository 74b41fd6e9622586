"""The paper's catalogue of shifts against Table 1, and shifts in a user's words."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from counterpose_core.errors import CounterposeError, InvalidRequest, PromptTooLong
from counterpose_core.shift_benchmark.shifts import Shift, catalogue, check_distinct, shift_of
from counterpose_core.text.class_prompts import shift_caption

VIT_H = "ViT-H-14/laion2b_s32b_b79k"

TABLE_1 = """
in the grass | A photo of a <class> in the grass | 0.127 | 80.3
in the beach | A photo of a <class> in the beach | 0.175 | 62.9
in the forest | A photo of a <class> in the forest | 0.153 | 67.3
in the water | A photo of a <class> in the water | 0.163 | 60.1
on the road | A photo of a <class> in the road | 0.154 | 64.5
on the rocks | A photo of a <class> in the rocks | 0.124 | 76.6
in the snow | A photo of a <class> in the snow | 0.160 | 73.2
in the rain | A photo of a <class> in the rain | 0.173 | 48.3
in the fog | A photo of a <class> in the fog | 0.152 | 59.3
in bright sunlight | A photo of a <class> in bright sunlight | 0.124 | 89.9
at dusk | A photo of a <class> at dusk | 0.158 | 61.9
at night | A photo of a <class> at night | 0.147 | 61.1
studio lighting | A photo of a <class> in studio lighting | 0.140 | 66.6
blue | A photo of a blue <class> | 0.163 | 59.1
green | A photo of a green <class> | 0.190 | 51.3
red | A photo of a red <class> | 0.167 | 59.6
yellow | A photo of a yellow <class> | 0.212 | 43.3
orange | A photo of a orange <class> | 0.216 | 41.0
person and a | A photo of a person and a <class> | 0.181 | 29.9
and a flower | A photo of a <class> and a flower | 0.148 | 61.9
oil painting | An oil panting of a <class> | 0.214 | 67.2
pencil sketch | A black and white pencil sketch of a <class> | 0.223 | 61.8
embroidery | An embroidery of a <class> | 0.259 | 33.0
"""
"""As printed, but for the space after the class that most rows lack."""

ROWS = [[cell.strip() for cell in line.split("|")] for line in TABLE_1.strip().splitlines()]


def known(name: str) -> Shift:
    shift = catalogue().find(name)
    assert shift is not None
    return shift


@pytest.mark.paper(
    "DI-T1-base",
    "DI-T1-grass",
    "DI-T1-beach",
    "DI-T1-forest",
    "DI-T1-water",
    "DI-T1-road",
    "DI-T1-rocks",
    "DI-T1-snow",
    "DI-T1-rain",
    "DI-T1-fog",
    "DI-T1-sunlight",
    "DI-T1-dusk",
    "DI-T1-night",
    "DI-T1-studio",
    "DI-T1-blue",
    "DI-T1-green",
    "DI-T1-red",
    "DI-T1-yellow",
    "DI-T1-orange",
    "DI-T1-person",
    "DI-T1-flower",
    "DI-T1-oil",
    "DI-T1-pencil",
    "DI-T1-embroidery",
)
def test_the_catalogue_follows_table_1() -> None:
    found = [(shift.name, shift.printed or shift.prompt) for shift in catalogue().shifts]
    assert found == [(name, prompt) for name, prompt, _, _ in ROWS]
    assert len(found) == 23
    assert (catalogue().base, catalogue().base_share_kept) == ("A photo of a <class>", 0.926)


@pytest.mark.paper(
    "DI-T1-grass",
    "DI-T1-beach",
    "DI-T1-forest",
    "DI-T1-water",
    "DI-T1-road",
    "DI-T1-rocks",
    "DI-T1-snow",
    "DI-T1-rain",
    "DI-T1-fog",
    "DI-T1-sunlight",
    "DI-T1-dusk",
    "DI-T1-night",
    "DI-T1-studio",
    "DI-T1-blue",
    "DI-T1-green",
    "DI-T1-red",
    "DI-T1-yellow",
    "DI-T1-orange",
    "DI-T1-person",
    "DI-T1-flower",
    "DI-T1-oil",
    "DI-T1-pencil",
    "DI-T1-embroidery",
)
@pytest.mark.parametrize(("name", "prompt", "threshold", "share"), ROWS)
def test_each_shift_has_the_threshold_and_yield_of_table_1(
    name: str, prompt: str, threshold: str, share: str
) -> None:
    shift = known(name)
    assert shift.published_threshold(VIT_H) == float(threshold)
    assert shift.published is not None
    assert shift.published.share_kept == pytest.approx(float(share) / 100)


@pytest.mark.parametrize("checkpoint", ["ViT-H-14", "ViT-L-14/openai", "miniature", ""])
def test_a_published_threshold_applies_only_to_its_checkpoint(checkpoint: str) -> None:
    assert catalogue().checkpoint == VIT_H
    assert {shift.published_threshold(checkpoint) for shift in catalogue().shifts} == {None}


def test_misprinted_captions_have_a_corrected_version_for_generation() -> None:
    mended = {shift.name: shift.prompt for shift in catalogue().shifts if shift.printed is not None}
    assert mended == {
        "in the beach": "A photo of a <class> on the beach",
        "on the road": "A photo of a <class> on the road",
        "on the rocks": "A photo of a <class> on the rocks",
        "orange": "A photo of an orange <class>",
        "oil painting": "An oil painting of a <class>",
    }
    assert all(bool(shift.note) == (shift.printed is not None) for shift in catalogue().shifts)


@pytest.mark.paper("DI-S3.1-style-caption")
def test_only_captions_of_photographic_shifts_say_photo() -> None:
    for shift in catalogue().shifts:
        assert shift.is_style == (shift.family == "style")
        assert shift.is_style or shift.caption == f"a photo {shift.name}"
        assert shift.caption.startswith(("a photo ", "an oil", "a pencil", "an embroidery"))
    assert [shift.name for shift in catalogue().shifts if shift.is_style] == [
        "oil painting", "pencil sketch", "embroidery"
    ]  # fmt: skip
    assert known("at dusk").object_caption("apple") == "a photo of an apple"
    assert known("oil painting").object_caption("apple") == "an apple"


def test_captions_of_custom_shifts_follow_the_catalogue_rule() -> None:
    other = [shift.name for shift in catalogue().shifts if shift_caption(shift.prompt) != shift.caption]
    assert other == ["in the beach", "studio lighting", "pencil sketch"]


def test_shifts_are_grouped_by_the_papers_families() -> None:
    sizes = Counter(shift.family for shift in catalogue().shifts)
    assert sizes == {
        "background": 6, "weather": 3, "time": 2, "lighting": 2, "colour": 5, "co-occurrence": 2, "style": 3
    }  # fmt: skip


@pytest.mark.paper("DI-S3-prompt")
def test_free_text_follows_the_class() -> None:
    shift = shift_of("through the clouds")
    assert shift.prompt_for("airplane") == "a photo of an airplane through the clouds"
    assert shift.prompt_for("<a>", token=True) == "a photo of a <a> through the clouds"
    assert (shift.caption, shift.family) == ("a photo through the clouds", "own")
    assert shift.published_threshold(VIT_H) is None


def test_a_catalogue_name_is_not_treated_as_free_text() -> None:
    assert shift_of("red") == shift_of("RED ") == known("red")
    assert shift_of("red").prompt_for("plate") == "A photo of a red plate"


def test_a_full_prompt_marks_the_place_of_the_class() -> None:
    shift = shift_of("a photo of an empty <class>", name="empty")
    assert (shift.name, shift.caption) == ("empty", "a photo empty")
    assert shift.prompt_for("plate") == "a photo of an empty plate"
    assert shift_of("a mosaic of a <class>").is_style


def test_a_custom_caption_has_no_published_threshold() -> None:
    shift = shift_of("in the snow", caption="a photo of deep snow")
    assert shift.caption == "a photo of deep snow"
    assert shift.published_threshold(VIT_H) is None


def test_a_shift_for_some_classes_applies_only_to_those() -> None:
    shift = shift_of("sleeping", classes=["cat", "dog"])
    assert shift.applies_to("cat")
    assert not shift.applies_to("airplane")
    assert known("red").applies_to("airplane")
    with pytest.raises(InvalidRequest, match="'sleeping' applies to no class"):
        shift_of("sleeping", classes=[])


@pytest.mark.fault("B25", "B33")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("in the\x00snow", "control or hidden"),
        ("a photo of a dog in the snow", "no <class>"),
        ("a <class> on a <class>", "2 <class>"),
        ("a photo of a <class>", "is the base prompt"),
        ("<class>", "is the base prompt"),
        ("base", "the name of the base condition"),
        ("Base", "the name of the base condition"),
    ],
)
def test_an_invalid_shift_is_refused_by_name(text: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        shift_of(text)


@pytest.mark.fault("B27")
def test_a_shift_with_too_many_words_is_refused_and_not_truncated() -> None:
    with pytest.raises(PromptTooLong):
        shift_of("in the snow and " * 20)


def test_a_shift_with_malformed_text_is_refused() -> None:
    for wrong in (("", "a <class>", "a"), ("red", "a photo", "a"), ("red", "a <class>", "\x00")):
        with pytest.raises(CounterposeError):
            Shift(*wrong)


def test_released_folder_names_map_to_their_shifts() -> None:
    assert shift_of("in_the_snow") == known("in the snow")


def test_duplicate_shift_names_are_refused() -> None:
    check_distinct(catalogue().shifts)
    with pytest.raises(InvalidRequest, match="'in the snow' and 'In the snow'"):
        check_distinct([known("in the snow"), dataclasses.replace(known("red"), name="In the snow")])
