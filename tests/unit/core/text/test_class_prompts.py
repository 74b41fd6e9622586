"""Prompts with a slot for the class: which are refused, and what is inserted."""

from __future__ import annotations

import pytest

from counterpose_core.errors import CounterposeError, InvalidRequest, PromptTooLong
from counterpose_core.text.class_prompts import (
    check_name,
    check_prompt,
    count_slots,
    fill,
    is_photo,
    object_caption,
    refuse_slot,
    require_slot,
    shift_caption,
)

LOOKALIKES = [
    "a < class >", "a <Class>", "a <CLASS> in snow", "a ＜class＞", "a <cl\u200bass>", "a <\u00a0class\t>",
    "a ⟨class⟩", "a ‹class›", "a 《ｃｌａｓｓ》", "a <class> and a <Class>", "a <\u00adclass>",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("a photo of a <class>", 1),
        ("<class><class>", 2),
        ("a boat", 0),
        ("", 0),
        ("a <classy> boat", 0),
        ("first class > second, 3 < 4", 0),
        ("<<class>>", 1),
    ],
)
def test_slots_are_counted_by_exact_spelling(text: str, slots: int) -> None:
    assert count_slots(text) == slots


@pytest.mark.fault("B32")
@pytest.mark.parametrize("text", LOOKALIKES)
def test_a_misspelt_slot_is_refused_everywhere(text: str) -> None:
    for judge in (count_slots, require_slot, refuse_slot):
        with pytest.raises(InvalidRequest, match="misspells the class slot"):
            judge(text)


@pytest.mark.fault("B33")
@pytest.mark.parametrize(("text", "message"), [("a boat", "no slots"), ("a <class> on a <class>", "2 slots")])
def test_a_token_needs_exactly_one_slot(text: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        require_slot(text)


@pytest.mark.fault("B33")
def test_a_slot_needs_a_token() -> None:
    refuse_slot("a boat")
    with pytest.raises(InvalidRequest, match="no token to fill it"):
        refuse_slot("a <class>")


@pytest.mark.fault("B33")
@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("a photo of a dog", "no <class>"),
        ("a photo of a <Class>", "'<C'"),
        ("a photo of a <TOKEN>", "'<T'"),
        ("a <class> beside a <class>", "2 <class>"),
        ("a photo of a <class>in the grass", "no space"),
        ("a photo of a blue<class>", "no space"),
        ("a photo of a <class>\x00", "control or hidden"),
        ("a photo of a <class>\nin the snow", "control or hidden"),
        ("a photo of a \u202e<class>", "control or hidden"),
        ("a photo of a <class> <script>", "'<s'"),
        ("a <class> " + "x" * 500, "more than 500"),
    ],
)
def test_a_prompt_without_exactly_one_slot_is_refused_by_name(prompt: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as refused:
        check_prompt(prompt)
    assert refused.value.pointer == "/prompt"


def test_prompts_longer_than_the_encoder_limit_are_refused() -> None:
    with pytest.raises(PromptTooLong) as refused:
        check_prompt("a <class> " + "a " * 74, field="shift")
    assert refused.value.pointer == "/shift"
    check_prompt("a <class> " + "a " * 73)


@pytest.mark.parametrize("prompt", ["<class>", "a <class>.", "a <class>, asleep", "ein <class> im Grün"])
def test_any_plain_text_around_the_class_is_a_prompt(prompt: str) -> None:
    check_prompt(prompt)


@pytest.mark.parametrize("name", ["", " in the snow", "in  the snow", "in the snow\x1b", "<class>"])
def test_a_name_is_plain_words_without_extra_spaces(name: str) -> None:
    with pytest.raises(CounterposeError):
        check_name(name)


@pytest.mark.paper("DI-S3-prompt")
def test_the_article_agrees_with_a_name_but_not_with_a_token() -> None:
    prompt = "A photo of a <class> in the snow"
    assert fill(prompt, "airplane") == "A photo of an airplane in the snow"
    assert fill(prompt, "plate") == "A photo of a plate in the snow"
    assert fill(prompt, "<airplane-4>", token=True) == "A photo of a <airplane-4> in the snow"
    assert fill("An old <class>", "airplane") == "An old airplane"
    assert fill("an <class>", "dog") == "a dog"


def test_a_token_that_looks_like_the_slot_is_inserted_once() -> None:
    assert fill("a <class> here", "<class>", token=True) == "a <class> here"


@pytest.mark.paper("DI-S3.1-object-metric")
def test_the_object_caption_says_photo_only_for_photos() -> None:
    assert is_photo("A photograph of a <class>")
    assert not is_photo("An oil painting of a <class>")
    assert object_caption("orange") == "a photo of an orange"
    assert object_caption("plate", photo=False) == "a plate"


@pytest.mark.paper("DI-S3.1-shift-metric")
@pytest.mark.parametrize(
    ("prompt", "caption"),
    [
        ("A photo of a <class> in the snow", "a photo in the snow"),
        ("A photo of an orange <class>", "a photo orange"),
        ("A photo of a person and a <class>", "a photo person and a"),
        ("An embroidery of a <class>", "an embroidery"),
        ("a photo of a <class> with a piece of a cake", "a photo with a piece of a cake"),
    ],
)
def test_a_shift_caption_is_the_prompt_without_the_class(prompt: str, caption: str) -> None:
    assert shift_caption(prompt) == caption
