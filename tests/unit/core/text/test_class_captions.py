"""The distinctive words of a class in captions, and the prompts that remain without them."""

from __future__ import annotations

import pytest

from counterpose_core.text.class_captions import class_captions
from counterpose_core.text.class_prompts import CLASS_SLOT

PLACES = ("on the grass", "on the road", "in the snow")


def around(subject: str, count: int = 9) -> list[str]:
    return [f"a photo of {subject} {PLACES[index % 3]}" for index in range(count)]


DATASET = {
    "plate": around("a red plate of food", 6) + around("a blue plate of food", 6),
    "tram": around("a green tram"),
    "kite": around("a red kite") + around("a kite"),
}


def test_the_words_of_a_class_are_its_name_and_its_distinctive_words() -> None:
    found = class_captions(DATASET)
    assert found["plate"].own == ("food", "plate")
    assert found["tram"].own == ("green", "tram")
    assert found["kite"].own == ("kite",)


def test_the_slot_replaces_the_run_of_class_words() -> None:
    found = class_captions(DATASET)
    assert found["plate"].prompts[:2] == (
        "a photo of a <class> on the grass",
        "a photo of a <class> on the road",
    )
    assert found["tram"].prompts[2] == "a photo of a <class> in the snow"


def test_modifiers_before_the_class_are_replaced_by_default() -> None:
    kept = class_captions(DATASET, modifiers=0)
    assert kept["kite"].prompts[0] == "a photo of a red <class> on the grass"
    assert class_captions(DATASET)["kite"].prompts[0] == "a photo of a <class> on the grass"
    long = class_captions({"sled": ["one very old large red sled, new"]})["sled"].prompts[0]
    assert long == "one very old <class>, new"


def test_words_common_to_several_classes_are_not_distinctive() -> None:
    alike = {name: around(f"a green {name}") for name in ("tram", "bus")}
    assert class_captions(alike)["tram"].own == ("tram",)


def test_a_word_of_half_or_of_few_captions_is_not_distinctive() -> None:
    halves = {"tram": around("a green tram", 6) + around("a tram", 6), "bus": around("a bus")}
    assert class_captions(halves)["tram"].own == ("tram",)
    few = {"tram": around("a green tram", 3), "bus": around("a bus")}
    assert class_captions(few)["tram"].own == ("tram",)


def test_a_single_class_has_only_its_name() -> None:
    assert class_captions({"plate": around("a plate of food")})["plate"].own == ("plate",)


def test_a_class_with_a_code_name_is_described_by_its_common_words() -> None:
    found = class_captions({"n0153": around("a small bird"), "n0267": around("a boat")})
    assert found["n0153"].own == ("bird", "small")
    assert found["n0153"].prompts[0] == "a photo of a <class> on the grass"


def test_separate_class_words_are_removed_with_the_words_before_them() -> None:
    captions = {
        "boat": ["a boat with three men, on the water"] * 6 + ["on the water, a red boat"] * 6,
        "bus": around("a bus"),
    }
    found = class_captions(captions)["boat"]
    assert found.own == ("boat", "water")
    assert set(found.prompts) == {"a <class> with three men", "a <class>"}


def test_the_name_determines_the_position_of_the_slot() -> None:
    captions = {"plate": ["fresh fruit and bread, near a plate"] * 6, "bus": around("a bus")}
    assert class_captions(captions)["plate"].prompts[0] == "near a <class>"


def test_a_plural_matches_the_class_but_a_longer_word_does_not() -> None:
    found = class_captions({"bus": ["two buses on a road", "a busy road"], "plate": []})
    assert found["bus"].own == ("buses",)
    assert found["bus"].prompts == ("<class> on a road", None)


@pytest.mark.parametrize(
    "caption",
    [
        "",
        "   ",
        "...",
        "a road in the rain",
        "a <class> and a bus",
        "a < Class > and a bus",
        "a photo of a bus " + "by the road " * 60,
        "a _bus_ on the road",
        "a bus\x00 on the road",
    ],
)
def test_a_caption_without_a_prompt_falls_back_to_the_templates(caption: str) -> None:
    found = class_captions({"bus": [caption, "a bus on the road"], "tram": around("a tram")})
    assert found["bus"].prompts == (None, "a <class> on the road")


def test_no_captions_or_classes_give_no_prompts() -> None:
    assert class_captions({}) == {}
    assert class_captions({"bus": [], "tram": [""]})["bus"].prompts == ()


def test_free_captions_keep_their_punctuation() -> None:
    captions = {
        "sled": ["Two kids sitting on a wooden sled, in the park. A dog looks on!"] * 6,
        "boat": ["There is a boat that is floating on the water in the sun"] * 6,
    }
    found = class_captions(captions)
    assert all(prompt is not None and prompt.count(CLASS_SLOT) == 1 for prompt in found["sled"].prompts)


def test_words_are_compared_without_case() -> None:
    captions = {"Plate": ["A Plate of Food", "a plate of food"] * 4, "bus": around("a bus")}
    assert class_captions(captions)["Plate"].own == ("food", "plate")
    assert class_captions(captions)["Plate"].prompts[:2] == ("A <class>", "a <class>")


def test_the_shared_class_noun_goes_into_the_slot() -> None:
    kinds = {"m-1": around("a red bus"), "m-2": around("a blue bus"), "m-3": around("a white bus")}
    assert class_captions(kinds)["m-1"].prompts[0] == "a photo of a <class> bus on the grass"
    found = class_captions(kinds, shared="bus")["m-1"]
    assert found.own == ("bus", "red")
    assert found.prompts[0] == "a photo of a <class> on the grass"


def test_a_slot_in_a_caption_is_not_the_word_class() -> None:
    found = class_captions({"class": ["a photo of a <class>", "a photo of a class"]})["class"]
    assert found.prompts == (None, "a photo of a <class>")


def test_a_run_containing_the_name_is_the_class() -> None:
    captions = {
        "plate": ["fresh fruit and bread and milk, near food on a plate with ham"] * 9,
        "bus": around("a bus"),
    }
    assert class_captions(captions)["plate"].prompts[0] == "near <class>"
