"""What a folder's images are called: by itself, by a file of names, or by its WordNet id."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.errors import InvalidRequest
from counterpose_core.text.class_prompts import object_caption
from counterpose_core.text.folder_names import folder_classes, notes_on_names, read_names
from counterpose_core.text.imagenet_hierarchy import CLASSES, class_names, hierarchy
from counterpose_core.text.plain_text import check_words, find_confusable


def test_wordnet_ids_are_called_as_imagenet_does_and_other_folders_by_themselves() -> None:
    found = folder_classes(["n02690373", "boat", "n03888257", "n2690373"])
    assert found == {
        "n02690373": "airliner", "boat": "boat", "n03888257": "parachute", "n2690373": "n2690373",
    }  # fmt: skip
    assert object_caption(found["n02690373"]) == "a photo of an airliner"


def test_given_names_come_before_wordnet_s_and_may_name_other_folders() -> None:
    given = {"n02690373": "airplane", "b": "boat", "absent": "sled", "n03888257": "n03888257"}
    assert folder_classes(["n02690373", "b", "n03888257", "n01440764"], given) == {
        "n02690373": "airplane", "b": "boat", "n03888257": "n03888257", "n01440764": "tench",
    }  # fmt: skip


def test_an_id_that_imagenet_does_not_have_is_refused_unless_it_is_given_a_name() -> None:
    with pytest.raises(InvalidRequest, match=r"'n00007846' is a WordNet id that ImageNet-1k does not have"):
        folder_classes(["n02690373", "n00007846"])
    assert folder_classes(["n00007846"], {"n00007846": "person"}) == {"n00007846": "person"}


def test_names_of_no_folder_are_refused_and_told() -> None:
    with pytest.raises(InvalidRequest, match=r"the names are for 'baot' and others.* one is called 'boat'"):
        folder_classes(["sled", "boat"], {"baot": "ship"})


def test_each_class_of_imagenet_has_a_plain_name_that_means_no_other() -> None:
    names = class_names()
    assert len(names) == CLASSES
    assert find_confusable(names.values()) is None
    for own, name in names.items():
        check_words(name, field="label", most=200)
        assert hierarchy().meant[name.casefold()] == own
    assert names["n02012849"] == "crane (wading bird)"
    assert names["n03126707"] == "crane (lifting device)"
    assert names["n03447721"] == "gong"


def test_notes_say_what_is_not_called_as_its_folder() -> None:
    assert notes_on_names({"boat": "boat"}) == []
    changed = {f"f{number}": f"c{number}" for number in range(5)}
    (note,) = notes_on_names({"boat": "boat", **changed})
    assert note.endswith("'f0' is 'c0', 'f1' is 'c1', 'f2' is 'c2', and 2 more")
    (note,) = notes_on_names({"n02690373": "airliner"})
    assert note.endswith("'n02690373' is 'airliner'")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("names.json", '\ufeff{"n02690373": "air liner", "b": "boat"}'),
        ("words.txt", "n02690373\tair liner\n\nb\tboat\n"),
        ("LOC_synset_mapping.txt", "n02690373 air liner\r\nb boat\r\n"),
    ],
)
def test_names_are_read_from_an_object_or_from_lines(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_names(tmp_path / name) == {"n02690373": "air liner", "b": "boat"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("names.json", "{", "is not a JSON object"),
        ("names.json", '["boat"]', "is not a JSON object"),
        ("names.json", '[["b", "boat"]]', "is not a JSON object"),
        ("names.json", '{"b": 3}', "gives 'b' no name"),
        ("names.json", '{"b": " "}', "gives 'b' no name"),
        ("names.json", '{"b": {"boat": 1}}', "gives 'b' no name"),
        ("names.json", '{"b": "boat", "b": "bus"}', "gives 'b' two names"),
        ("words.txt", "b boat\nb bus", "gives 'b' two names"),
        ("words.txt", "b boat\nsled\n", "line 2 of .* is not a folder and a name"),
    ],
)
def test_a_file_of_another_form_is_named_in_the_error(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InvalidRequest, match=message) as refused:
        read_names(tmp_path / name)
    assert name in refused.value.detail


def test_a_file_that_is_missing_or_no_text_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\xff")
    for name in ("absent.json", "bytes.json"):
        with pytest.raises(InvalidRequest, match=rf"cannot read the names .*{name}"):
            read_names(tmp_path / name)
