"""Captions describe exactly their scene, and edits change exactly one attribute."""

import numpy as np
import pytest

from counterpose_miniature.world.grammar import (
    EDIT_TYPES,
    caption,
    class_name,
    edits,
    parse,
    phrase,
    rewordings,
    tokens,
    words,
)
from counterpose_miniature.world.sampling import UNIFORM, sample_scene
from counterpose_miniature.world.scene import VALUES, Scene
from counterpose_miniature.world.wording import TEMPLATES, WITHHELD_TEMPLATES

FULL = Scene("boat", "special", "red", "road", "rain", "photo", "dog", nuisance=0)


def drawn(count: int) -> list[Scene]:
    generator = np.random.default_rng(3)
    return [sample_scene(generator, UNIFORM) for _ in range(count)]


def test_captions_read_as_sentences() -> None:
    assert caption(FULL) == "a photo of a close-up of a red boat on the road in the rain next to a dog"
    plain = Scene("bus", "plain", "blue", "snow", "clear", "sketch", "none", nuisance=0)
    assert caption(plain, 2) == "a blue bus in the snow, a sketch"


@pytest.mark.parametrize("template", range(len(TEMPLATES)))
def test_parse_inverts_every_template(template: int) -> None:
    for scene in drawn(1000):
        assert parse(caption(scene, template)) == scene.attributes()


@pytest.mark.parametrize("template", range(len(TEMPLATES)))
def test_captions_have_at_most_twenty_words_of_the_vocabulary(template: int) -> None:
    vocabulary = set(words())
    for scene in [FULL, *drawn(500)]:
        spoken = tokens(caption(scene, template))
        assert len(spoken) <= 20
        assert vocabulary.issuperset(spoken)


def test_paraphrases_keep_every_attribute_and_the_vocabulary() -> None:
    vocabulary = set(words())
    for scene in drawn(200):
        others = rewordings(caption(scene))
        assert others
        for text in others:
            assert parse(text) == scene.attributes()
            assert vocabulary.issuperset(tokens(text))
            assert caption(scene) in rewordings(text)


def test_the_vocabulary_is_lower_case_sorted_and_closed() -> None:
    vocabulary = words()
    assert list(vocabulary) == sorted(set(vocabulary))
    assert all(word == word.lower() and " " not in word for word in vocabulary)
    assert {"close-up", "double-decker", ",", "picture"} <= set(vocabulary)
    assert not {"none", "clear", "subject"} & set(vocabulary)


def test_partial_texts_leave_other_attributes_unset() -> None:
    assert parse("on the beach") == {"background": "sand"}
    alone = {"object_class": "tram", "kind": "plain", "weather": "clear", "companion": "none"}
    assert parse("a tram") == alone
    assert parse("a photo of a <token> in the mist") == {"weather": "fog", "style": "photo"}
    assert parse("") == {}


def test_a_mark_of_another_class_does_not_make_the_kind_special() -> None:
    assert parse("a tram with gifts")["kind"] == "plain"


@pytest.mark.parametrize("edit_type", EDIT_TYPES)
@pytest.mark.parametrize("template", range(len(TEMPLATES)))
def test_an_edit_changes_exactly_one_attribute(edit_type: str, template: int) -> None:
    for scene in drawn(40):
        for edit in edits(scene, edit_type, template):
            before, after = parse(edit.caption), parse(edit.edited_caption)
            assert {name for name in before if before[name] != after[name]} == {edit.attribute}
            assert (before[edit.attribute], after[edit.attribute]) == (edit.old, edit.new)
            assert after == edit.scene_after.attributes()
            assert edit.scene_after.nuisance == scene.nuisance


def test_every_other_value_is_proposed_once() -> None:
    assert [edit.new for edit in edits(FULL, "adjective")] == ["yellow", "green", "blue", "white"]
    assert len(edits(FULL, "subject")) == 1 + 7
    with pytest.raises(ValueError, match="edit type"):
        edits(FULL, "mood")


def test_phrases_occur_in_captions() -> None:
    for attribute, values in VALUES.items():
        if attribute == "kind":
            continue
        for value in values:
            scene = FULL.changed(attribute, value)
            assert phrase(attribute, value, scene.object_class) in caption(scene)
    assert phrase("kind", "special", "plate") == "plate of food"
    assert phrase("kind", "plain", "plate") == class_name("plate") == "plate"


def test_unknown_words_have_no_phrase() -> None:
    with pytest.raises(ValueError, match="no value"):
        phrase("colour", "pink", "bus")
    with pytest.raises(ValueError, match="unknown class"):
        class_name("zebra")


def test_withheld_templates_exist() -> None:
    assert all(0 <= index < len(TEMPLATES) for index in WITHHELD_TEMPLATES)
    assert len(TEMPLATES) - len(WITHHELD_TEMPLATES) >= 4
