"""Descriptions from captions: the phrase of a word around the label, whole captions, single sentences."""

from __future__ import annotations

from collections import Counter

import pytest

from counterpose_core.bug_hunt.descriptions import (
    ANOTHER_CLASS,
    LOST_LABEL,
    Description,
    Proposed,
    baseline_template,
    content_words,
    describe,
    usable,
)

TEMPLATE = "a photo of a <class>"
PLACES = ("on the grass", "on the sand", "in the fog")


def proposals(
    failures: list[str], successes: list[str], *, template: str = TEMPLATE, label: str = "sled"
) -> Proposed:
    classes = ["sled", "kite", "fire engine"]
    return describe(failures, successes, template=template, label=label, classes=classes)


def by_words(failures: list[str], successes: list[str], **options: str) -> Description:
    """The first description, which is one of words."""
    found = proposals(failures, successes, **options).descriptions[0]
    assert found.source == "words"
    return found


def elsewhere(label: str = "sled", before: str = "a photo of a red") -> list[str]:
    return [f"{before} {label} {place} next to a dog" for place in PLACES * 6]


@pytest.mark.paper("BUGS-S3-no-cluster")
def test_words_become_the_phrase_that_captions_have_around_them() -> None:
    snow = [f"a photo of a red sled in the snow next to a {thing}" for thing in ("dog", "ball", "lamp") * 4]
    found = by_words(snow, elsewhere())
    assert (found.prompt, found.words) == ("a photo of a sled in the snow", "in the snow")


def test_a_phrase_goes_as_far_as_most_captions_do() -> None:
    rails = ["a photo of a sled on top of the old railway bridge"] * 12
    assert by_words(rails, elsewhere()).words == "on top of the old railway bridge"


def test_words_before_the_label_stay_before_it_and_the_article_agrees() -> None:
    old = [f"a photo of an orange sled {place}" for place in PLACES * 4]
    found = by_words(old, elsewhere())
    assert (found.prompt, found.words) == ("a photo of an orange sled", "orange")


def test_a_style_replaces_the_beginning_of_the_prompt() -> None:
    painted = [f"a painting of a sled {place}" for place in PLACES * 4]
    found = by_words(painted, elsewhere())
    assert (found.prompt, found.words) == ("a painting of a sled", "a painting of a")


def test_the_full_stop_and_the_parent_of_the_papers_prompt_stay() -> None:
    snow = ["a realistic photograph of a sled in the snow"] * 12
    template = baseline_template("a realistic photograph of a <class> (<parent>).", "vehicle")
    others = elsewhere(before="a realistic photograph of a")
    found = by_words(snow, others, template=template)
    assert found.prompt == "a realistic photograph of a sled (vehicle) in the snow."


@pytest.mark.paper("BUGS-S3-prompt")
def test_the_papers_prompt_names_class_and_parent_and_leaves_an_unknown_parent_out() -> None:
    paper = "a realistic photograph of a <class> (<parent>)."
    assert baseline_template(paper, "insect") == "a realistic photograph of a <class> (insect)."
    assert baseline_template(paper, None) == "a realistic photograph of a <class>."


def test_without_words_each_caption_is_a_description_the_most_frequent_first() -> None:
    captions = ["a sled in snow", "a sled at night", "a sled at night"]
    found = proposals(captions, []).descriptions
    assert [(each.prompt, each.source) for each in found] == [
        ("a sled at night", "caption"),
        ("a sled in snow", "caption"),
    ]


@pytest.mark.paper("BUGS-S3-single")
def test_each_sentence_is_tried_with_the_baseline_prompt() -> None:
    found = proposals(["A photo of a sled. It is in the snow. The background is green."], []).descriptions
    assert [each.prompt for each in found[1:]] == [
        "A photo of a sled.",
        "a photo of a sled. It is in the snow.",
        "a photo of a sled. The background is green.",
    ]
    assert {each.source for each in found[1:]} == {"sentence"}


@pytest.mark.paper("BUGS-X-wrong-object")
def test_captions_that_lose_the_label_or_name_another_class_are_left_out_and_counted() -> None:
    captions = ["a dog in the snow", "a sled and a kite", "a sled and a fire engine", "a sled in the snow"]
    found = proposals(captions, [])
    assert found.dropped == {LOST_LABEL: 1, ANOTHER_CLASS: 2}
    assert [each.prompt for each in found.descriptions] == ["a sled in the snow"]


def test_a_label_of_several_words_is_found_as_a_whole() -> None:
    captions = ["a fire engine in the snow", "a fire and an engine"]
    found = proposals(captions, [], label="fire engine")
    assert (len(found.descriptions), found.dropped) == (1, {LOST_LABEL: 1})
    assert content_words(captions[0], "fire engine") == {"snow"}


@pytest.mark.parametrize(
    ("label", "caption", "is_kept"),
    [
        ("fly agaric", "a fly agaric and a fly", True),
        ("fly", "a fly on a fly agaric", False),
        ("fly", "a fly on a fire by an engine", True),
        ("agaric", "a fly agaric", False),
        ("agaric", "an agaric beside a FLY", False),
        ("agaric", "an agaric at the fire", True),
        ("agaric", "an agaric in a fire engine's light, no fire engine", False),
    ],
)
def test_a_class_is_named_by_all_of_its_words_next_to_each_other(
    label: str, caption: str, is_kept: bool
) -> None:
    # The mark alone is no word, and names nothing.
    classes = ["fly", "agaric", "fly agaric", "fire engine", "?"]
    dropped = Counter[str]()
    assert usable([caption], label, classes, dropped) == [caption] * is_kept
    assert dropped == ({} if is_kept else {ANOTHER_CLASS: 1})


def test_no_description_comes_twice() -> None:
    found = proposals(["a photo of a sled in the snow"] * 12, elsewhere()).descriptions
    assert [each.prompt for each in found] == ["a photo of a sled in the snow"]
    assert found[0].source == "words"


def test_few_failures_prove_no_word_yet_it_is_tried_before_whole_captions() -> None:
    failures = [f"a photo of a {colour} sled among the flowers" for colour in ("red", "blue", "grey")]
    successes = [f"a photo of a sled {place}" for place in (*PLACES, "among the flowers")]
    found = proposals(failures, successes).descriptions
    assert [(each.words, each.source) for each in found[:2]] == [
        ("among the flowers", "words"),
        ("red flowers", "caption"),
    ]


def test_a_word_that_successes_have_as_often_is_not_tried() -> None:
    captions = ["a photo of a sled in the snow", "a photo of a sled at night"] * 3
    assert {each.source for each in proposals(captions, captions).descriptions} == {"caption"}


def test_no_failures_give_no_description() -> None:
    assert proposals([], elsewhere()).descriptions == []
